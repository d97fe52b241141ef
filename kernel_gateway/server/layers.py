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
import shlex
import shutil
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
from kernel_gateway.package_sources import DEBIAN_SOURCES, parse_apt_sources
from kernel_gateway.server import debian_packages, sandboxes
from kernel_gateway.server.doctor import own_place
from kernel_gateway.settings import Settings
from kernels.environment import Environment, NetworkMode, NetworkPolicy, PackageIndex, Resources
from kernels.errors import EnvironmentBuildFailed
from kernels.guest_client.client import GuestClient
from kernels.images import image_setup
from kernels.images.layer import Layer, link_root
from kernels.images.packages import InstalledPackage, canonicalize, read_packages
from kernels.oci import environments
from kernels.sandbox import SandboxInfo, SandboxRuntime, SandboxSpec

PYPI: Final = PackageIndex("https://pypi.org/simple/")
READY_SECONDS: Final = 120
INSTALL_SECONDS: Final = 3600
OUTPUT_BYTES: Final = 64 * 1024
LONGEST_LINE: Final = 2_000
LONGEST_NOTE: Final = 500
MOST_NOTES: Final = 100
_FORMAT: Final = "layer 2"
_KEPT: Final = ".sandcell/packages"
_DEBIAN: Final = ".sandcell/debian"
_VARIABLES: Final = (f"PATH={debian_packages.PATH}", "DEBIAN_FRONTEND=noninteractive", "LC_ALL=C.UTF-8", "HOME=/root")
_WITH_VARIABLES: Final = f"env --unset=no_proxy --unset=NO_PROXY {shlex.join(_VARIABLES)}"
"""Of apt and dpkg, which want root's path; a source at a loopback address of the host is reached like any other."""
_PROGRAM: Final = Path(debian_packages.__file__)
_INSTALL: Final = (
    "{python} -m pip install --no-color --progress-bar=off --compile --constraint=constraints.txt"
    " --requirement=requirements.txt"
)
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
        archives.mkdir()
        asyncio.run(_fetch_debian(settings, one, base, archives))
        say("installing them in a container without a network, whose root is nobody here")
        notes = _install_debian(settings, one, base, unfinished)
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
        await _write(guest, _PROGRAM.name, _PROGRAM.read_text())
        words = [base.python, "-I", _PROGRAM.name, "fetch", f"/workspace/{_DEBIAN}", sources, *one.apt]
        await _run(guest, f"{_WITH_VARIABLES} {shlex.join(words)}")
        layer, workspace = Layer(archives, settings.storage_mb_max << 20), Path(info.workspace_directory)
        await asyncio.to_thread(layer.add, workspace, f"{_DEBIAN}/cache/archives", "/")


def _install_debian(settings: Settings, one: Declared, base: Environment, unfinished: Path) -> tuple[str, ...]:
    """Install what was fetched; which package's script failed, and why, as the container says."""
    place, files = unfinished / "setup", unfinished / "archives"
    shutil.copyfile(_PROGRAM, files / _PROGRAM.name)
    program = f"{image_setup.FILES}/{_PROGRAM.name}"
    said = image_setup.run(
        image_setup.ImageSetup(
            base=base.root,
            root=str(unfinished / "root"),
            files=str(files),
            command=(base.python, "-I", "-B", program, "install", image_setup.FILES),
            variables=_VARIABLES,
            place=str(place),
            runtime=one.runtime or settings.runtime,
            settings=sandboxes.make_runtime_settings(settings, (), place=unfinished.parent),
            storage_bytes=settings.storage_mb_max << 20,
            memory_bytes=settings.memory_mb_max << 20,
            pids=settings.pids,
            seconds=INSTALL_SECONDS,
        )
    )
    for each in (place, files):
        environments.remove_tree(each)
    lines = ("".join(filter(str.isprintable, line))[:LONGEST_NOTE] for line in said.splitlines())
    return tuple(filter(None, lines))[:MOST_NOTES]


async def _install_python(settings: Settings, one: Declared, below: Environment, root: Path) -> None:
    """Have pip of the image install the packages, and take them into `root`, which may be what they are laid over."""
    reached = dataclasses.replace(below, network=NetworkPolicy(), index=one.index or PYPI)
    async with _sandbox(settings, one, reached) as (guest, info):
        places = await _install(guest, below, one, read_packages(below.root, below.python))
        layer = Layer(root, settings.storage_mb_max << 20)  # what the sandbox may hold is what the image may get
        await asyncio.to_thread(_take_python, layer, Path(below.root), root, Path(info.workspace_directory), places)


def _take_python(layer: Layer, base: Path, root: Path, workspace: Path, places: Mapping[str, str]) -> None:
    if not root.exists():
        link_root(base, root)
    for below, place in places.items():
        layer.add(workspace, below, place)


async def _install(
    guest: GuestClient, base: Environment, one: Declared, before: tuple[InstalledPackage, ...]
) -> dict[str, str]:
    """Install; what is to be taken from the workspace, and where the image keeps such files."""
    kept = {canonicalize(each.name): each.version for each in before if each.kind == "python"}
    await _write(guest, "constraints.txt", "".join(f"{name}=={version}\n" for name, version in kept.items()))
    await _write(guest, "requirements.txt", "\n".join(one.packages))
    await _run(guest, _INSTALL.format(python=base.python))
    said = (await _run(guest, _PLACES.format(python=base.python))).split("\n")
    if len(said) < 2 or not said[0].startswith(f"/workspace/{_KEPT}/"):
        raise EnvironmentBuildFailed("the image's Python does not say where it keeps packages")
    return {said[0].removeprefix("/workspace/"): said[1], f"{_KEPT}/bin": "/usr/local/bin"}


async def _write(guest: GuestClient, name: str, text: str) -> None:
    async def content() -> AsyncIterator[bytes]:
        yield text.encode()

    await guest.write_file(name, content())


async def _run(guest: GuestClient, command: str) -> str:
    done = await guest.run_command(
        command, timeout_seconds=INSTALL_SECONDS, output_bytes=OUTPUT_BYTES, merge_output=True
    )
    if done.exit_code != 0:
        why = f"it took longer than {INSTALL_SECONDS} s" if done.timed_out else done.stdout
        raise EnvironmentBuildFailed(f"the packages could not be installed:\n{why.strip()[-2000:]}")
    return done.stdout


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
