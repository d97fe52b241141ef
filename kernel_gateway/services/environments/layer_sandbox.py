"""A list of packages installed in a sandbox of the image that they are added to, and laid over that image.

The sandbox is like every session's, made by the launcher: an unprivileged user in its own namespaces, whose only ways
out are the operator's package index or sources. It holds nothing but the list, and is destroyed afterwards. Root's
half, the copy of what was installed, is the launcher's.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import functools
import uuid
from collections.abc import AsyncIterator, Sequence
from typing import Protocol

import msgspec

from kernel_gateway.egress.budget import EgressUsage
from kernel_gateway.egress.decision import Party
from kernel_gateway.installation.lists import PYPI, Installer
from kernel_gateway.package_sources import DEBIAN_SOURCES, parse_apt_sources
from kernel_gateway.services.admission.disk_room import DiskRoom
from kernel_gateway.services.admission.fair_shares import FairShares
from kernel_gateway.services.admission.memory_room import MemoryRoom
from kernel_gateway.services.admission.utility_sandboxes import UtilitySandboxes
from kernel_gateway.services.environments.build_log import BuildLog
from kernel_gateway.services.environments.egress import Egress
from kernel_gateway.settings import Settings
from kernels.environment import Environment, NetworkMode, NetworkPolicy, Resources
from kernels.errors import LauncherRefused, SandboxFailed
from kernels.guest_client.client import GuestClient
from kernels.images.added_packages import Part
from kernels.images.packages import read_packages
from kernels.sandbox import SandboxRuntime, SandboxSpec


class Layering(Protocol):
    """Root's half: the launcher's verbs."""

    async def lay_packages(self, sandbox_id: str, base: Environment, layer: str, part: Part) -> None:
        """Make the image `layer` of `base` and what a sandbox of that has installed; raises `KernelsError`."""

    async def remove_layer(self, layer: str) -> None:
        """Remove an image that no sandbox runs on; raises `KernelsError`."""


class NoLayering:
    """For a service without a launcher: nothing is made."""

    async def lay_packages(self, sandbox_id: str, base: Environment, layer: str, part: Part) -> None:
        raise LauncherRefused("this service has no launcher to make images")

    async def remove_layer(self, layer: str) -> None:
        raise LauncherRefused("this service has no launcher to remove images")


class Step(msgspec.Struct, frozen=True):
    """One image to be made: `layer` names what comes of these packages over `base`."""

    layer: str
    base: Environment
    part: Part
    packages: Sequence[str]


class LayerSandbox:
    """`build` one image in a sandbox of its own."""

    def __init__(
        self,
        *,
        settings: Settings,
        runtime: SandboxRuntime,
        layering: Layering,
        egress: Egress,
        starting: FairShares,
        memory_room: MemoryRoom,
        disk_room: DiskRoom,
        utility_sandboxes: UtilitySandboxes,
    ) -> None:
        self._settings = settings
        self._runtime = runtime
        self._layering = layering
        self._egress = egress
        self._starting = starting
        self._memory_room = memory_room
        self._disk_room = disk_room
        self._utility_sandboxes = utility_sandboxes

    async def build(self, owner: str, step: Step, said: BuildLog) -> None:
        """Make the image; `said` gets what the tools print. Raises `KernelsError`, GatewayError and TimeoutError."""
        self._disk_room.require(self._settings.added_image_bytes)
        sandbox_id, environment = str(uuid.uuid4()), self._choose_environment(step)
        before = await asyncio.to_thread(read_packages, step.base.root, step.base.python)
        async with (
            self._utility_sandboxes.hold(sandbox_id),
            self._open(owner, sandbox_id, environment) as guest,
        ):
            installer = Installer(guest, step.base, self._settings.added_build_seconds, said.add, said.show)
            if step.part == "debian":
                await installer.fetch_debian(step.packages, self._settings.apt_sources or DEBIAN_SOURCES)
            else:
                await installer.install_python(step.packages, before)
            said.add("setting them up" if step.part == "debian" else "making the image")
            await self._layering.lay_packages(sandbox_id, step.base, step.layer, step.part)

    @contextlib.asynccontextmanager
    async def _open(self, owner: str, sandbox_id: str, environment: Environment) -> AsyncIterator[GuestClient]:
        """A sandbox whose guest answers, with its ways out."""
        guest, party = GuestClient(functools.partial(self._runtime.dial, sandbox_id)), Party(sandbox_id, owner)
        async with contextlib.AsyncExitStack() as opened:
            opened.push_async_callback(guest.aclose)
            seconds = self._settings.start_deadline_seconds
            try:
                async with self._memory_room.start(), self._starting.place(owner), asyncio.timeout(seconds):
                    await self._runtime.create(SandboxSpec(sandbox_id, environment))
                    record = functools.partial(self._egress.record, party)
                    egress = await self._egress.open(sandbox_id, party, environment, EgressUsage(), record)
                    if egress is not None:
                        opened.push_async_callback(egress.aclose)
                    await guest.wait_ready(seconds)
            except TimeoutError:
                raise SandboxFailed(f"its sandbox did not start within {seconds:g} s") from None
            yield guest

    def _choose_environment(self, step: Step) -> Environment:
        """The image below, with disk for what is unpacked and what is kept of it, and the ways to packages alone."""
        settings, debian = self._settings, step.part == "debian"
        mirrors = parse_apt_sources(settings.apt_sources or DEBIAN_SOURCES) if debian else ()
        return dataclasses.replace(
            step.base,
            resources=Resources(settings.memory_mb, settings.storage_mb_max, settings.pids),
            network=NetworkPolicy(NetworkMode.ALLOWLIST, mirrors) if debian else NetworkPolicy(),
            role=None,
            index=None if debian else step.base.index or PYPI,
            keep_packages=True,
        )
