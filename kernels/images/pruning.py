"""Which builds on this host are for nothing any more, and their removal.

A build is needed while it is its environment's current one, or while a sandbox runs on it. Sandboxes are found by the
claims of host ids, which all services that share a run directory make there, and by the journal of each.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import msgspec

from kernels.errors import EnvironmentBuildFailed
from kernels.images.kernel_packages import CACHE
from kernels.oci.environments import DOWNLOADS, Progress, building, measure_size, megabytes, remove_tree

_CLAIMS: Final = "uids"
_JOURNAL: Final = "sandbox.json"
_AWAY: Final = ".removed-"


class Unused(msgspec.Struct, frozen=True):
    """What can go: a build, its downloads, what a killed one left, packages that no image needs; `why` says which."""

    path: Path
    why: str
    bytes: int
    digest: str = ""


def find_digests_in_use(run_directory: Path, data_directory: Path | None = None) -> set[str]:
    """Digests of the images that sandboxes of this host run on; of one service's, by its data directory, when given.

    Raises `EnvironmentBuildFailed` when one does not say which: it may be any.
    """
    found = set()
    for claim in sorted((run_directory / _CLAIMS).glob("*")):
        if not claim.name.isdigit():
            continue
        home = Path(claim.read_text())
        if data_directory is not None and not home.is_relative_to(data_directory):
            continue
        try:
            digest = json.loads((home / _JOURNAL).read_text())["environment_digest"]
        except FileNotFoundError:
            if not home.exists():
                continue  # a sandbox that is gone: its claim is stale
            raise EnvironmentBuildFailed(f"a sandbox in {home} is being made; try again") from None
        except (OSError, ValueError, KeyError):
            reason = f"the sandbox in {home} does not say what image it runs on: end it first"
            raise EnvironmentBuildFailed(reason) from None
        found.add(str(digest))
    return found


def find_unused(directory: Path, in_use: set[str]) -> list[Unused]:
    """What nothing needs below the environments directory, by the digests that are in use."""
    directory = directory.resolve()  # the links to current builds are followed, and compared with what is listed here
    found: list[Unused] = []
    needed_packages = set()
    for name in _list_names(directory):
        current = (directory / name / "current").resolve()
        for build in sorted((directory / name).iterdir()):
            if build.is_symlink() or not build.is_dir():
                continue
            if build.name == DOWNLOADS:
                if current.exists():  # else a build was cut off, and goes on with them
                    found.append(Unused(build, "downloads of its builds", measure_size(build)))
                continue
            if build.name.startswith("."):
                found.append(Unused(build, "left by a build that did not end", measure_size(build)))
                continue
            declared = _read_declared(build)
            digest = str(declared.get("digest", ""))
            if build == current or digest in in_use:
                needed_packages.add(declared.get("origin", {}).get("kernel_packages", "")[:32])
            else:
                found.append(Unused(build, f"{name} has a newer build", measure_size(build), digest))
    for archive in sorted((directory / CACHE).glob("python3.*.tar")):
        if archive.stem.partition("-")[2] not in needed_packages:
            found.append(Unused(archive, "no image needs these packages", archive.stat().st_size))
    return found


def remove_unused(directory: Path, run_directory: Path, progress: Progress) -> int:
    """Remove all of that, and return how many bytes it had. What a sandbox has begun to use meanwhile stays."""
    freed = 0
    for one in find_unused(directory, find_digests_in_use(run_directory)):
        with building(one.path.parent):  # not while it is built, or made the current one
            away = one.path.with_name(f"{_AWAY}{one.path.name}")
            current = one.path.with_name("current")
            if not one.path.exists() or current.resolve() == one.path:
                continue
            # Nothing starts on it from now on: the launcher does not find it any more.
            one.path.rename(away)
            if one.digest and one.digest in find_digests_in_use(run_directory):
                away.rename(one.path)
                continue
            remove_tree(away)
            _remove_dangling(one.path.parent)
        progress(f"removed {one.path}: {megabytes(one.bytes)}")
        freed += one.bytes
    return freed


def _remove_dangling(directory: Path) -> None:
    """Links of recipes and images to builds that are gone."""
    for link in directory.iterdir():
        if link.is_symlink() and not link.exists():
            link.unlink()


def _list_names(directory: Path) -> Iterator[str]:
    if directory.is_dir():
        yield from sorted(
            each.name for each in os.scandir(directory) if each.is_dir() and not each.name.startswith(".")
        )


def _read_declared(build: Path) -> dict[str, Any]:
    try:
        declared = json.loads((build / "environment.json").read_text())
    except (OSError, ValueError):
        return {}
    return declared if isinstance(declared, dict) else {}
