"""Images from a list: a built image and more packages, Python's and Debian's, which a sandbox of that image installs.

The sandbox is like every other one: an unprivileged user in its own namespaces, whose only way out is the package
index, or the sources of Debian packages. Those are installed by a container without a network over the image, whose
root is nobody on the host. Nothing of a package runs on the host. Python packages of the image below keep their
versions; what is added is locked: its versions stand in `packages.lock` beside the new root. The digest is of the image
below and the lists.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import functools
import hashlib
import os
import uuid
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from kernel_gateway.egress.budget import EgressLimits
from kernel_gateway.egress.decision import Decision, Party
from kernel_gateway.egress.packages.proxy import PackageIndexes
from kernel_gateway.egress.packages.wheel_cache import WheelCache
from kernel_gateway.egress.policy import OperatorRules
from kernel_gateway.egress.resolver import system_resolve
from kernel_gateway.egress.session_egress import SessionEgress
from kernel_gateway.endpoints import parse_endpoints
from kernel_gateway.environments_file import LONGEST_DESCRIPTION, Declared
from kernel_gateway.installation.lists import PYPI, Installer
from kernel_gateway.package_sources import DEBIAN_SOURCES, parse_apt_sources
from kernel_gateway.server import sandboxes
from kernel_gateway.server.doctor import own_place
from kernel_gateway.settings import Settings
from kernels.environment import Environment, NetworkMode, NetworkPolicy, Resources
from kernels.errors import EnvironmentBuildFailed
from kernels.guest_client.client import GuestClient
from kernels.images import added_packages
from kernels.images.added_packages import PYTHON_PACKAGES
from kernels.images.layer import Layer, link_root, make_place
from kernels.images.packages import read_packages
from kernels.oci import environments
from kernels.sandbox import SandboxInfo, SandboxRuntime, SandboxSpec

READY_SECONDS: Final = 120
INSTALL_SECONDS: Final = 3600
LONGEST_LINE: Final = 2_000
SHARE: Final = "/usr/local/share"
"""Where data of packages goes, kernelspecs among it."""
_FORMAT: Final = "layer 2"
_PLACES: Final = (
    "{python} -c 'import site, sysconfig as s; print(site.getusersitepackages()); print(s.get_paths()[\"purelib\"])'"
)
Say = Callable[[str], None]


def build(settings: Settings, one: Declared, say: Say) -> Environment:
    """Build the image of a table with a list of packages, or find that it is built already. Needs root.

    Raises `EnvironmentBuildFailed` and what a runtime raises.
    """
    directory = settings.environments_path
    base = environments.find_installed(directory).get(one.image)
    if base is None:
        raise EnvironmentBuildFailed(f"{one.name} is made over {one.image}, which is not built: build it first")
    target = environments.locate(directory, one.name, digest(base, one))
    with environments.building(directory / one.name):
        if not (target / "environment.json").exists():
            if os.geteuid() != 0:
                raise EnvironmentBuildFailed("building an environment makes a root file system: run it as root (sudo)")
            with environments.stage(target) as unfinished:
                _build(settings, one, base, unfinished, say)
        environments.point(target.parent / "current", target.name)
    return environments.find_installed(directory)[one.name]


def digest(base: Environment, one: Declared) -> str:
    """Names the image: what it is made over, and the lists."""
    text = "\n".join((_FORMAT, base.digest, *sorted(one.packages), *(f"apt:{each}" for each in sorted(one.apt))))
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"


def _build(settings: Settings, one: Declared, base: Environment, unfinished: Path, say: Say) -> None:
    root = unfinished / "root"
    before, below = read_packages(base.root, base.python), base
    notes: tuple[str, ...] = ()
    if one.apt:
        say(f"fetching {', '.join(one.apt)} in a sandbox of {base.name}")
        archives = unfinished / "archives"
        asyncio.run(_fetch_debian(settings, one, base, archives))
        say("installing them in a container without a network, whose root is nobody here")
        notes = _install_debian(settings, one, base, unfinished, archives)
        for note in notes:
            say(f"a package's script failed, and its work is missing: {note}"[:LONGEST_LINE])
        below = dataclasses.replace(base, root=str(root))
    if one.packages:
        say(f"installing {', '.join(one.packages)} in a sandbox of {base.name}")
        asyncio.run(_install_python(settings, one, below, root))
    added = sorted(set(read_packages(str(root), base.python)) - set(before))
    lines = [f"{each.name}{'==' if each.kind == 'python' else '='}{each.version}\n" for each in added]
    (unfinished / "packages.lock").write_text("".join(lines))
    say(f"added {', '.join(f'{each.name} {each.version}' for each in added) or 'nothing'}"[:LONGEST_LINE])
    declare(unfinished, one, base, notes)


def declare(unfinished: Path, one: Declared, base: Environment, notes: Sequence[str] = ()) -> None:
    """Write what the image is: as the one below, but for its name and what it says of itself."""
    description = one.description or f"{base.description}; with {', '.join((*one.apt, *one.packages))}"
    environments.declare(
        unfinished,
        name=one.name,
        digest=digest(base, one),
        description=description[:LONGEST_DESCRIPTION],
        python=base.python,
        variables=dict(base.variables),
        notes=[*notes],
    )


async def _fetch_debian(settings: Settings, one: Declared, base: Environment, archives: Path) -> None:
    """Have apt of the image fetch the packages and what they need, and take them."""
    sources = settings.apt_sources or DEBIAN_SOURCES
    mirrors = NetworkPolicy(NetworkMode.ALLOWLIST, parse_apt_sources(sources))
    async with _sandbox(settings, one, dataclasses.replace(base, network=mirrors, index=None)) as (guest, info):
        await Installer(guest, base, INSTALL_SECONDS).fetch_debian(one.apt, sources)
        workspace, most_bytes = Path(info.workspace_directory), settings.storage_mb_max << 20
        await asyncio.to_thread(added_packages.take_archives, workspace, archives, most_bytes)


def _install_debian(
    settings: Settings, one: Declared, base: Environment, unfinished: Path, archives: Path
) -> tuple[str, ...]:
    """Install what was fetched; which package's script failed, and why, as the container says."""
    container = added_packages.Container(
        one.runtime or settings.runtime,
        sandboxes.make_runtime_settings(settings, (), place=unfinished.parent),
        settings.memory_mb_max << 20,
        settings.pids,
        settings.vcpus_max,
        INSTALL_SECONDS,
    )
    most_bytes = settings.storage_mb_max << 20
    return added_packages.install_debian(base, unfinished, archives, container, most_bytes=most_bytes)


async def _install_python(settings: Settings, one: Declared, below: Environment, root: Path) -> None:
    """Have pip of the image install the packages, and take them into `root`, which may be what they are laid over."""
    reached = dataclasses.replace(below, network=NetworkPolicy(), index=one.index or PYPI)
    async with _sandbox(settings, one, reached) as (guest, info):
        installer = Installer(guest, below, INSTALL_SECONDS)
        await installer.install_python(one.packages, read_packages(below.root, below.python))
        places = await _find_places(installer)
        layer = Layer(root, settings.storage_mb_max << 20)  # what the sandbox may hold is what the image may get
        await asyncio.to_thread(_take_python, layer, Path(below.root), root, Path(info.workspace_directory), places)


def _take_python(layer: Layer, base: Path, root: Path, workspace: Path, places: Mapping[str, str]) -> None:
    if not root.exists():
        link_root(base, root)
    for below, place in places.items():
        if place == SHARE:
            with contextlib.suppress(OSError):  # should packages have anything for it, `add` says what is in the way
                make_place(root, place)
        layer.add(workspace, below, place)


async def _find_places(installer: Installer) -> dict[str, str]:
    """What is to be taken from the workspace, and where the image keeps such files."""
    said = (await installer.run(_PLACES.format(python=installer.base.python))).split("\n")
    if len(said) < 2 or not said[0].startswith(f"/workspace/{PYTHON_PACKAGES}/"):
        raise EnvironmentBuildFailed("the image's Python does not say where it keeps packages")
    return {
        said[0].removeprefix("/workspace/"): said[1],
        f"{PYTHON_PACKAGES}/bin": "/usr/local/bin",
        f"{PYTHON_PACKAGES}/share": SHARE,
    }


@contextlib.asynccontextmanager
async def _sandbox(
    settings: Settings, one: Declared, base: Environment
) -> AsyncIterator[tuple[GuestClient, SandboxInfo]]:
    """A sandbox of the image below, from which what it names is reached and nothing else."""
    environment = dataclasses.replace(
        base,
        resources=Resources(settings.memory_mb_max, settings.storage_mb_max, settings.pids),
        keep_packages=True,
        runtime=one.runtime or settings.runtime,
    )
    sandbox_id = str(uuid.uuid4())
    with own_place(Path(settings.data_dir)) as place:
        runtime = sandboxes.make_runtime(settings, place)
        guest = GuestClient(functools.partial(runtime.dial, sandbox_id))
        try:
            info = await runtime.create(SandboxSpec(sandbox_id, environment))
            async with _egress(settings, runtime, sandbox_id, environment):
                await guest.wait_ready(READY_SECONDS)
                yield guest, info
        finally:
            await guest.aclose()
            await runtime.destroy(sandbox_id)
            await runtime.aclose()


@contextlib.asynccontextmanager
async def _egress(
    settings: Settings, runtime: SandboxRuntime, sandbox_id: str, environment: Environment
) -> AsyncIterator[None]:
    operator = OperatorRules((*parse_endpoints(settings.egress_private), *environment.network.allow))
    limits = EgressLimits(received_bytes=settings.egress_received_bytes, requests=settings.egress_requests)
    indexes = PackageIndexes(operator, system_resolve, limits, WheelCache(Path(settings.data_dir), 0))
    ways = {"http": bool(environment.network.allow), "packages": environment.index is not None}
    egress = await SessionEgress.open(
        Party(sandbox_id, "build"),
        environment.network,
        None,
        {name: await runtime.listen(sandbox_id, name) for name, wanted in ways.items() if wanted},
        limits=limits,
        operator=operator,
        record=_ignore,
        index=environment.index,
        indexes=indexes,
    )
    try:
        yield
    finally:
        await egress.aclose()
        await indexes.aclose()


def _ignore(_: Decision) -> None:
    """A build is root's own doing: pip's output says what it fetched."""
