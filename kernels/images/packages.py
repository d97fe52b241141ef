"""What is installed in an image: read from its root file system, and from nothing that runs.

Python packages are the `*.dist-info` and `*.egg-info` beside the image's interpreter, those of the system what dpkg and
conda wrote down. An image may be anybody's: no link in it is followed, what is read is bounded, and a name or a version
that makes no sense is left out.
"""

from __future__ import annotations

import itertools
import os
import posixpath
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from kernels.oci.safe_open import open_beneath

MOST_PACKAGES: Final = 20_000
_MOST_ENTRIES: Final = 50_000
_MOST_METADATA_BYTES: Final = 64 * 1024
_MOST_DPKG_BYTES: Final = 16 * 1024 * 1024
_MOST_PLACES: Final = 64

_NAME: Final = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._+-]{0,98}[A-Za-z0-9.+])?")
_VERSION: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9.!+~:_-]{0,99}")
_PYTHON_PLACE: Final = re.compile(r"python3(?:\.[0-9]{1,2})?")
_INSTALLERS: Final = {"pip": "pip", "uv": "pip", "debian": "apt", "conda": "conda"}
_INSTALLED: Final = "install ok installed"


@dataclass(frozen=True, order=True)
class InstalledPackage:
    """One package: `kind` is `python` or `system`; `source` is `pip`, `apt`, `conda`, or empty when nothing says it."""

    kind: str
    name: str
    version: str
    source: str = ""


def read_packages(root: str, python: str) -> tuple[InstalledPackage, ...]:
    """Every package of an unpacked image whose interpreter is `python`, in order; empty when there is no such image."""
    top = Path(root)
    found = itertools.chain(_read_python(top, _find_places(top, python)), _read_dpkg(top), _read_conda(top, python))
    return tuple(sorted({each for each in itertools.islice(found, MOST_PACKAGES) if each is not None}))


def find_importable(root: str, sites: Sequence[str]) -> dict[str, str]:
    """The version that an interpreter with these directories imports of each Python package, by its canonical name."""
    found: dict[str, str] = {}
    for each in itertools.islice(_read_python(Path(root), (site.strip("/") for site in sites)), MOST_PACKAGES):
        if each is not None:
            found.setdefault(canonicalize(each.name), each.version)
    return found


def canonicalize(name: str) -> str:
    """A Python package's name as indexes compare it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def _read_python(top: Path, places: Iterable[str]) -> Iterator[InstalledPackage | None]:
    for place in places:
        names = list_names(top, place)
        if names is None:
            continue
        for name in sorted(names):
            if name.endswith((".dist-info", ".egg-info")):
                yield _read_distribution(top, f"{place}/{name}", name)


def _find_places(top: Path, python: str) -> list[str]:
    """Directories, relative to the root, that the interpreter may import packages from."""
    prefixes = dict.fromkeys(("usr/local", "usr", posixpath.normpath(posixpath.join(python, "../..")).strip("/")))
    found = []
    for prefix in prefixes:
        lib = f"{prefix}/lib" if prefix else "lib"
        versions = sorted(name for name in list_names(top, lib) or () if _PYTHON_PLACE.fullmatch(name))
        found += [f"{lib}/{version}/{kind}-packages" for version in versions for kind in ("site", "dist")]
    return found[:_MOST_PLACES]


def _read_distribution(top: Path, place: str, name: str) -> InstalledPackage | None:
    metadata = "METADATA" if name.endswith(".dist-info") else "PKG-INFO"
    text = read_text(top, f"{place}/{metadata}", _MOST_METADATA_BYTES) or read_text(top, place, _MOST_METADATA_BYTES)
    fields = _parse_fields(text.splitlines())
    installer = read_text(top, f"{place}/INSTALLER", 100).strip().lower()
    return _make("python", fields.get("name", ""), fields.get("version", ""), _INSTALLERS.get(installer, ""))


def _read_dpkg(top: Path) -> Iterator[InstalledPackage | None]:
    """What dpkg has installed; images without dpkg itself have a file for each package."""
    parts = [f"var/lib/dpkg/status.d/{name}" for name in sorted(list_names(top, "var/lib/dpkg/status.d") or ())]
    for place in ["var/lib/dpkg/status", *(each for each in parts if not each.endswith(".md5sums"))]:
        for paragraph in read_text(top, place, _MOST_DPKG_BYTES).split("\n\n"):
            fields = _parse_fields(paragraph.split("\n"))
            if fields.get("status", _INSTALLED) == _INSTALLED:
                yield _make("system", fields.get("package", ""), fields.get("version", ""), "apt")


def _read_conda(top: Path, python: str) -> Iterator[InstalledPackage | None]:
    """What conda put beside the interpreter, by the names of its records: name, version, build."""
    place = posixpath.normpath(posixpath.join(python, "../../conda-meta")).strip("/")
    for record in sorted(list_names(top, place) or ()):
        words = record.removesuffix(".json").rsplit("-", 2)
        if record.endswith(".json") and len(words) == 3:
            yield _make("system", words[0], words[1], "conda")


def _parse_fields(lines: Iterable[str]) -> dict[str, str]:
    """The fields of a head of `Name: value` lines, up to the first empty one; the first of each name counts."""
    fields: dict[str, str] = {}
    for line in lines:
        if not line.strip():
            break
        name, colon, value = line.partition(":")
        if colon and name and not name[0].isspace():
            fields.setdefault(name.lower(), value.strip())
    return fields


def _make(kind: str, name: str, version: str, source: str) -> InstalledPackage | None:
    if not (_NAME.fullmatch(name) and _VERSION.fullmatch(version)):
        return None
    return InstalledPackage(kind, name, version, source)


def list_names(top: Path, place: str) -> list[str] | None:
    """The names in a directory of the image; None when it has no such directory."""
    try:
        directory = open_beneath(top, os.fsencode(place))
    except OSError:
        return None
    try:
        with os.scandir(directory) as entries:
            return [each.name for each in itertools.islice(entries, _MOST_ENTRIES)]
    except OSError:  # a file, or a link
        return None
    finally:
        os.close(directory)


def read_text(top: Path, place: str, most_bytes: int) -> str:
    """The beginning of a file of the image; empty when it has no such file."""
    try:
        file = open_beneath(top, os.fsencode(place))
    except OSError:
        return ""
    try:
        size = os.fstat(file).st_size  # os.read allocates as many bytes as it is asked for, however small the file is
        return os.read(file, min(size, most_bytes)).decode("utf-8", "replace")
    except OSError:  # a directory, or a link
        return ""
    finally:
        os.close(file)
