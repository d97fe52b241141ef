"""A file described inside a sandbox that holds nothing else, has no network and is destroyed afterwards.

No byte of the file is interpreted by this process: it copies them in and reads a bounded JSON document back, which it
believes as far as its shape and bounds go. The sandbox is made by the launcher that sessions have, with their limits.
"""

from __future__ import annotations

import asyncio
import dataclasses
import hashlib
import os
import threading
import uuid
from typing import Final

import msgspec

from kernel_gateway.dataset_profile import packing
from kernel_gateway.errors import Conflict, translated
from kernel_gateway.services.admission.disk_room import DiskRoom
from kernel_gateway.services.admission.fair_shares import FairShares
from kernel_gateway.services.admission.memory_room import MemoryRoom
from kernel_gateway.services.admission.readiness import Readiness
from kernel_gateway.services.admission.utility_sandboxes import UtilitySandboxes
from kernel_gateway.services.background import Background
from kernel_gateway.services.datasets.answers import profile_of
from kernel_gateway.services.environments.environments import Environments
from kernel_gateway.services.mirroring.mirrors import Mirrors
from kernel_gateway.settings import Settings
from kernels.environment import Environment, NetworkPolicy
from kernels.sandbox import SandboxInfo, SandboxSpec
from kernels.sandboxed.kernel_launcher import KernelLauncher
from kernels.sandboxed.workspace_copy import WorkspaceCopy
from sandcell.models.datasets import DatasetFormat, DatasetProfile, Encoding
from workspace_sync import DurableWorkspace
from workspace_sync.directory.safe_open import CREATE, DIRECTORY

AT_ONCE: Final = 2
"""Files being described at once; more wait, and a principal's for those of others."""
MOST_ANSWER_BYTES: Final = 1_000_000
"""Of what the sandbox says of a file."""
GRACE_SECONDS: Final = 60.0
"""For what is to be done besides reading: starting Python, the last batch."""
MEGABYTE: Final = 1 << 20
SPARE_MB: Final = 256
"""Disk besides the file."""
FILE: Final = b"data"


class Wanted(msgspec.Struct, frozen=True):
    """A durable file, and how it is to be read; the owner is the principal who wants it."""

    owner: str
    durable: DurableWorkspace
    path: str
    size: int
    format: DatasetFormat | None = None
    encoding: Encoding | None = None


class Profiled(msgspec.Struct, frozen=True):
    """What a file holds, and which bytes those were."""

    profile: DatasetProfile
    sha256: str
    size: int


class DatasetSandbox:
    """`describe` one file at a time, a few at once."""

    def __init__(
        self,
        *,
        settings: Settings,
        launcher: KernelLauncher,
        environments: Environments,
        mirrors: Mirrors,
        starting: FairShares,
        readiness: Readiness,
        disk_room: DiskRoom,
        memory_room: MemoryRoom,
        utility_sandboxes: UtilitySandboxes,
        background: Background,
    ) -> None:
        self._settings = settings
        self._launcher = launcher
        self._environments = environments
        self._mirrors = mirrors
        self._starting = starting
        self._readiness = readiness
        self._disk_room = disk_room
        self._memory_room = memory_room
        self._utility_sandboxes = utility_sandboxes
        self._background = background
        self._turns = FairShares("a sandbox to describe a file in", AT_ONCE)

    async def describe(self, wanted: Wanted) -> Profiled:
        """What the file holds. Raises UnreadableFile, Conflict (it changed meanwhile), EnvironmentUnavailable.

        Raises SandboxUnavailable, StoreUnavailable, NoSpace, NoMemory, DeadlinePassed, LimitReached and ShuttingDown
        too, which pass. A caller who goes away, or a service that ends, ends the sandbox.
        """
        async with self._turns.place(wanted.owner):
            self._readiness.require_accepting()
            self._disk_room.require(min(wanted.size, self._settings.dataset_bytes))
            sandbox_id = str(uuid.uuid4())
            describing = self._background.spawn(self._describe_held(sandbox_id, wanted), f"dataset in {sandbox_id}")
            try:
                return await describing
            except asyncio.CancelledError:
                self._readiness.require_accepting()
                raise

    async def _describe_held(self, sandbox_id: str, wanted: Wanted) -> Profiled:
        async with self._utility_sandboxes.hold(sandbox_id):
            with translated():
                return await self._describe(sandbox_id, wanted)

    async def _describe(self, sandbox_id: str, wanted: Wanted) -> Profiled:
        settings = self._settings
        environment = await self._choose_environment(wanted.size)
        async with (
            self._memory_room.start(),
            self._starting.place(wanted.owner),
            asyncio.timeout(settings.start_deadline_seconds),
        ):
            kernel = await self._launcher.launch(SandboxSpec(sandbox_id, environment), before_first_code=_nothing)
        try:
            most = min(wanted.size, settings.dataset_bytes)
            sha256 = await self._copy(wanted, kernel.info, most)
            if kernel.info.workspace_copy:
                await WorkspaceCopy(kernel.guest, kernel.info.workspace_directory, most).push()
            result = await kernel.guest.run_command(
                packing.build_command(environment.python, self._arguments(wanted)),
                timeout_seconds=settings.dataset_seconds + GRACE_SECONDS,
                output_bytes=MOST_ANSWER_BYTES,
            )
        finally:
            await kernel.aclose()
        profile = profile_of(result, environment, wanted.format, settings.dataset_seconds)
        return Profiled(profile, sha256, wanted.size)

    async def _choose_environment(self, size: int) -> Environment:
        """The environment with disk for the file, and no way out."""
        settings = self._settings
        found = await self._environments.exactly("", settings.dataset_environment)
        disk = max(found.resources.storage_mb, min(size, settings.dataset_bytes) // MEGABYTE * 21 // 20 + SPARE_MB)
        resources = dataclasses.replace(found.resources, storage_mb=disk)
        return dataclasses.replace(found, resources=resources, network=NetworkPolicy(), role=None)

    def _arguments(self, wanted: Wanted) -> list[str]:
        suffix = "." + wanted.path.rpartition("/")[2].rpartition(".")[2]
        return [
            f"/workspace/{FILE.decode()}",
            f"--name={FILE.decode()}{suffix if suffix.isascii() and suffix.isprintable() else ''}",
            f"--format={wanted.format or ''}",
            f"--encoding={wanted.encoding or ''}",
            f"--size={wanted.size}",
            f"--seconds={self._settings.dataset_seconds}",
        ]

    async def _copy(self, wanted: Wanted, info: SandboxInfo, most: int) -> str:
        """Put the file into the sandbox; the SHA-256 of all of it."""
        given_up = threading.Event()
        try:
            return await self._mirrors.run_durable(
                wanted.owner, lambda: _write(wanted, info.workspace_directory, most, given_up)
            )
        finally:
            given_up.set()  # cancelled, or too late: its thread goes on until it sees that it is not wanted any more


async def _nothing(_info: SandboxInfo) -> None:
    """The file comes later: no code runs before it."""


def _write(wanted: Wanted, directory: str, most: int, given_up: threading.Event) -> str:
    info, chunks = wanted.durable.open(wanted.path)
    digest, size = hashlib.sha256(), 0
    root = os.open(directory, DIRECTORY)
    try:
        with os.fdopen(os.open(FILE, CREATE, 0o644, dir_fd=root), "wb") as target:
            for chunk in chunks:
                if given_up.is_set():
                    break
                digest.update(chunk)
                target.write(chunk[: max(0, most - size)])
                size += len(chunk)
    finally:
        chunks.close()
        os.close(root)
    if size != wanted.size or info.size != wanted.size:
        raise Conflict("the file changed while it was read: register it again", reason="file_changed")
    return digest.hexdigest()
