"""ipykernel and what it needs, for an image whose Python has none: in a directory of their own, apart from the image's.

Locked with hashes, one lock for each Python that needs its own; fetched on the host when an image is imported, and kept
as an archive for each version of Python, the last one only. The image's Python finds them after all its own packages.
"""

from __future__ import annotations

import email
import hashlib
import platform
import re
import subprocess
import sys
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from email.message import Message
from pathlib import Path
from typing import Final

import msgspec

from kernels.errors import EnvironmentBuildFailed
from kernels.oci.environments import MANYLINUX, Progress, building, megabytes, remove_tree
from kernels.oci.image_layers import own_by_root

PLACE: Final = "opt/sandcell/kernel"
"""Below the image's root; the guest looks for it there."""
CACHE: Final = ".kernel-packages"
"""Where archives of the packages are kept, below the environments directory."""
_LOCKS: Final = Path(__file__).with_name("locks")
_NEWEST_LOCK: Final = 11
_STEP_SECONDS: Final = 1800
_FLOOR: Final = re.compile(
    r"([A-Za-z0-9][A-Za-z0-9._-]*)\s*(?:\[[^]]*\])?\s*\(?[^;]*?>=\s*([0-9]+(?:\.[0-9]+)*)[^;]*(;.*)?"
)


class Floor(msgspec.Struct, frozen=True):
    """The oldest release of a package that one of the kernel's packages works with."""

    package: str
    oldest: str
    needed_by: str


def find_lock(minor: int) -> Path:
    """The lock for Python 3.`minor`."""
    return _LOCKS / f"python3.{min(minor, _NEWEST_LOCK)}.txt"


def digest_lock(minor: int) -> str:
    """What names the packages for this Python: a new lock is another."""
    return hashlib.sha256(f"3.{minor} {platform.machine()} ".encode() + find_lock(minor).read_bytes()).hexdigest()


def fetch_packages(minor: int, cache: Path, progress: Progress, *, variables: Mapping[str, str]) -> Path:
    """The archive of the packages for Python 3.`minor`, in `cache` from now on; those of an older lock go.

    The archive is a layer: it replaces what an image has at `PLACE`. Raises `EnvironmentBuildFailed`.
    """
    archive = cache / f"python3.{minor}-{digest_lock(minor)[:32]}.tar"
    with building(cache):
        if not archive.exists():
            progress(f"fetching ipykernel for Python 3.{minor}, about 20 MB, once for all images with this Python")
            unfinished = cache / ".fetching"
            remove_tree(unfinished)  # of a process that was killed
            try:
                unfinished.mkdir()
                _install(minor, unfinished / "packages", variables)
                _pack(unfinished / "packages", unfinished / "archive")
                (unfinished / "archive").replace(archive)
            finally:
                remove_tree(unfinished)
            progress(f"    {megabytes(archive.stat().st_size)}")
        for other in cache.glob(f"python3.{minor}-*.tar"):
            if other != archive:
                other.unlink()
    return archive


def _install(minor: int, target: Path, variables: Mapping[str, str]) -> None:
    platforms = [f"--platform={tag}_{platform.machine()}" for tag in MANYLINUX]
    command = [
        *[sys.executable, "-I", "-m", "pip", "install", "--no-compile", "--no-deps", "--require-hashes", "--quiet"],
        *["--root-user-action=ignore", "--only-binary=:all:", f"--python-version=3.{minor}", *platforms],
        *[f"--target={target}", "--requirement", str(find_lock(minor))],
    ]
    try:
        done = subprocess.run(command, env=dict(variables), capture_output=True, timeout=_STEP_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        raise EnvironmentBuildFailed(f"pip did not end in {_STEP_SECONDS} s; see the network") from None
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip().rpartition("\n")[2][-500:]
        raise EnvironmentBuildFailed(f"ipykernel for Python 3.{minor} could not be fetched: {said}")


def _pack(packages: Path, archive: Path) -> None:
    """A layer that puts the packages at their place, whatever the image has there."""
    with tarfile.open(archive, "w", format=tarfile.PAX_FORMAT) as layer:
        above, _, name = PLACE.rpartition("/")
        layer.addfile(tarfile.TarInfo(f"{above}/.wh.{name}"))
        layer.add(packages, PLACE, filter=_leave_out_commands)


def _leave_out_commands(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
    """Scripts would run the host's Python; and pages of manuals are for nobody here."""
    return None if member.name in {f"{PLACE}/bin", f"{PLACE}/share"} else own_by_root(member)


def read_floors(archive: Path) -> list[Floor]:
    """What the packages need at least of each other, by their metadata."""
    found: dict[str, Floor] = {}
    with tarfile.open(archive) as layer:
        for metadata in _list_metadata(layer):
            for requirement in metadata.get_all("Requires-Dist", []):
                parts = _FLOOR.fullmatch(requirement)
                if parts and "extra ==" not in (parts[3] or "") and "python_version" not in (parts[3] or ""):
                    floor = Floor(_normalise(parts[1]), parts[2], f"{metadata['Name']} {metadata['Version']}")
                    others = found.get(floor.package)
                    if others is None or _parse_release(others.oldest) < _parse_release(floor.oldest):
                        found[floor.package] = floor
    return [found[name] for name in sorted(found)]


def require_compatible(floors: Sequence[Floor], packages: Mapping[str, str]) -> None:
    """Raise `EnvironmentBuildFailed` when the image has a package, which is found first, that the kernel cannot use."""
    for floor in floors:
        there = packages.get(floor.package, "")
        if there and _parse_release(there) < _parse_release(floor.oldest):
            raise EnvironmentBuildFailed(
                f"the image has {floor.package} {there}, and {floor.needed_by}, which it lacks, needs {floor.oldest} or"
                f" newer: upgrade it in the image, or install an ipykernel there that fits"
            )


def _list_metadata(layer: tarfile.TarFile) -> Iterator[Message]:
    for member in layer:
        if member.name.endswith(".dist-info/METADATA") and member.name.count("/") == PLACE.count("/") + 2:
            file = layer.extractfile(member)
            if file is not None:
                yield email.message_from_bytes(file.read())


def _normalise(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _parse_release(version: str) -> tuple[int, ...]:
    """The numbers that a version begins with; what follows them (rc1, .post2) does not count here."""
    found = re.match(r"(?:\d+!)?v?([0-9]+(?:\.[0-9]+)*)", version)
    numbers = [int(each) for each in found[1].split(".")] if found else [0]
    while len(numbers) > 1 and numbers[-1] == 0:
        numbers.pop()
    return tuple(numbers)
