"""Images that are another one and packages, as the service has them made: laid, looked for, removed.

They lie below the data directory under a name that no other image can have, each under its digest, and none is the
current one: they are in no list of images. Python packages go to a place of their own that the user's programs look
into and the guest does not: whoever names a package has no say in what the guest runs.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Final, Literal

import msgspec

from kernels.environment import Environment
from kernels.errors import EnvironmentBuildFailed, KernelsError, LauncherRefused
from kernels.images import contents, debian_packages, image_setup
from kernels.images.layer import GIVEN_UP, Layer, link_root, make_place
from kernels.images.packages import ADDED
from kernels.oci import environments
from kernels.sandbox import RuntimeSettings

NAME: Final = ".layers"
"""Of these images, and of the directory below the data directory. It begins as no image's name may."""
PYTHON_PACKAGES: Final = ".sandcell/packages"
"""Where pip of the sandbox leaves packages, below its workspace."""
DEBIAN_PACKAGES: Final = ".sandcell/debian"
Part = Literal["python", "debian"]
SETUP: Final = "setup"
"""Where the scripts of Debian packages run, below an image that is being made."""
LONGEST_NOTE: Final = 500
MOST_NOTES: Final = 100
_AWAY: Final = ".removed-"
_BUILD: Final = re.compile(r"(?:\.removed-|\.)?sha256-([0-9a-f]{64})")


class Container(msgspec.Struct, frozen=True):
    """Where the scripts of Debian packages run: `runtime` names the OCI runtime, `settings` say where it has things."""

    runtime: str
    settings: RuntimeSettings
    memory_bytes: int
    pids: int
    vcpus: float
    seconds: int


class Added(msgspec.Struct, frozen=True):
    """What is added: one part of what a sandbox of the image below has left in its workspace, `most_bytes` of it."""

    part: Part
    workspace: Path
    most_bytes: int
    container: Container
    given_up: Callable[[], bool]


def find(directory: Path, digest: str) -> Environment:
    """The image of this digest below the data directory; raises `UnknownEnvironment`."""
    return environments.find(directory, NAME, digest)


def list_digests(directory: Path) -> list[str]:
    """Digests of all that lies there, whole or left by a build or a removal that was killed."""
    place = directory / NAME
    if not place.is_dir():
        return []
    found = (_BUILD.fullmatch(name) for name in os.listdir(place))  # noqa: PTH208 - names alone
    return sorted({f"sha256:{each[1]}" for each in found if each})


def lay(directory: Path, base: Environment, digest: str, added: Added) -> None:
    """Make the image `digest` of the one below, unless it is there; all of it or nothing. Needs root.

    Raises `EnvironmentBuildFailed`.
    """
    target = environments.locate(directory, NAME, digest)
    with environments.building(directory / NAME):
        if (target / "environment.json").exists():
            return
        with environments.stage(target) as unfinished:
            root = unfinished / "root"
            notes: tuple[str, ...] = ()
            if added.part == "debian":
                archives = unfinished / "archives"
                take_archives(added.workspace, archives, added.most_bytes, added.given_up)
                notes = install_debian(
                    base,
                    unfinished,
                    archives,
                    added.container,
                    most_bytes=added.most_bytes,
                    given_up=added.given_up,
                )
            else:
                link_root(Path(base.root), root)
                make_place(root, f"/{ADDED}")
                layer = Layer(root, added.most_bytes, added.given_up)
                layer.add(added.workspace, PYTHON_PACKAGES, f"/{ADDED}")
            environments.declare(
                unfinished,
                name=NAME,
                digest=digest,
                description=base.description,
                python=base.python,
                variables=dict(base.variables),
                notes=[*notes],
            )
            if added.given_up():
                raise EnvironmentBuildFailed(GIVEN_UP)
            contents.record(replace(base, root=str(root), digest=digest, image=NAME))


def take_archives(
    workspace: Path, archives: Path, most_bytes: int, given_up: Callable[[], bool] = lambda: False
) -> None:
    """Take the Debian packages that a sandbox fetched; raises `EnvironmentBuildFailed`."""
    archives.mkdir()
    Layer(archives, most_bytes, given_up).add(workspace, f"{DEBIAN_PACKAGES}/cache/archives", "/")


def install_debian(
    base: Environment,
    unfinished: Path,
    archives: Path,
    container: Container,
    *,
    most_bytes: int,
    given_up: Callable[[], bool] = lambda: False,
) -> tuple[str, ...]:
    """Make `unfinished`/root of the image below and these packages; a line for each whose script failed. Needs root.

    Raises `EnvironmentBuildFailed`. What is in `archives` is gone then.
    """
    unfinished, archives = unfinished.absolute(), archives.absolute()
    program, place = Path(debian_packages.__file__), unfinished / SETUP
    shutil.copyfile(program, archives / program.name)
    inside = f"{image_setup.FILES}/{program.name}"
    said = image_setup.run(
        image_setup.ImageSetup(
            base=str(Path(base.root).absolute()),
            base_digest=base.digest,
            root=str(unfinished / "root"),
            files=str(archives),
            command=(base.python, "-I", "-B", inside, "install", image_setup.FILES),
            variables=debian_packages.VARIABLES,
            place=str(place),
            runtime=container.runtime,
            settings=container.settings,
            storage_bytes=most_bytes,
            memory_bytes=container.memory_bytes,
            pids=container.pids,
            vcpus=container.vcpus,
            seconds=container.seconds,
        ),
        given_up,
    )
    for each in (place, archives):
        environments.remove_tree(each)
    lines = ("".join(filter(str.isprintable, line))[:LONGEST_NOTE] for line in said.splitlines())
    return tuple(filter(None, lines))[:MOST_NOTES]


def remove_unfinished(settings: RuntimeSettings) -> list[str]:
    """Remove what builds of these images have left that were killed; the digests of those. Needs root."""
    place, found = settings.data_directory / NAME, []
    if place.is_dir():
        with environments.building(place):
            for left in sorted(place.glob(".sha256-*")):
                image_setup.take_back(left / SETUP, settings)
                environments.remove_tree(left)
                found.append(left.name.lstrip(".").replace("-", ":"))
    return found


def remove(directory: Path, digest: str, find_in_use: Callable[[], set[str]]) -> None:
    """Remove an image with what a killed build has left of it; absent is fine. Needs root.

    Raises `LauncherRefused` while a sandbox runs on it, and what `find_in_use` raises.
    """
    target = environments.locate(directory, NAME, digest)
    away = target.with_name(f"{_AWAY}{target.name}")
    with environments.building(directory / NAME):
        environments.remove_tree(target.with_name(f".{target.name}"))
        if target.exists():
            environments.remove_tree(away)
            target.rename(away)  # nothing starts on it from now on
        if away.exists():
            try:
                if digest in find_in_use():
                    raise LauncherRefused(f"a sandbox runs on the image {digest}")
            except KernelsError:
                away.rename(target)
                raise
            environments.remove_tree(away)
