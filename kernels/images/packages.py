"""What is installed in an image: read from its root file system, and from nothing that runs.

Python packages are the `*.dist-info` and `*.egg-info` beside the image's interpreter, those of the system what dpkg and
conda wrote down. An image may be anybody's: what is read of it is bounded, and a name or a version that makes no sense
is left out.
"""

from __future__ import annotations

import io
import itertools
import posixpath
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import msgspec

from kernels.images.reading import ImageReader

MOST_PACKAGES: Final = 20_000
ADDED: Final = "opt/sandcell/packages"
"""Where packages lie that were added to an image apart from its own: user's programs look there, the guest does not."""
_MOST_METADATA_BYTES: Final = 64 * 1024
_MOST_DPKG_BYTES: Final = 16 * 1024 * 1024
_MOST_PLACES: Final = 64

_NAME: Final = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._+-]{0,98}[A-Za-z0-9.+])?")
_VERSION: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9.!+~:_-]{0,99}")
_PYTHON_PLACE: Final = re.compile(r"python3(?:\.[0-9]{1,2})?")
_INSTALLERS: Final = {"pip": "pip", "uv": "pip", "debian": "apt", "conda": "conda"}
_INSTALLED: Final = "install ok installed"
_FIELDS: Final = frozenset({"name", "package", "status", "version"})


class InstalledPackage(msgspec.Struct, frozen=True, order=True):
    """One package: `kind` is `python` or `system`; `source` is `pip`, `apt`, `conda`, or empty when nothing says it."""

    kind: str
    name: str
    version: str
    source: str = ""


def read_packages(root: str, python: str) -> tuple[InstalledPackage, ...]:
    """Every package of an unpacked image whose interpreter is `python`, in order; empty when there is no such image."""
    image = ImageReader(root)
    python_packages = _read_python(image, _find_places(image, python))
    found = itertools.chain(python_packages, _read_dpkg(image), _read_conda(image, python))
    return tuple(sorted({each for each in itertools.islice(found, MOST_PACKAGES) if each is not None}))


def find_importable(root: str, sites: Sequence[str]) -> dict[str, str]:
    """The version that an interpreter with these directories imports of each Python package, by its canonical name."""
    found: dict[str, str] = {}
    places = (site.strip("/") for site in sites)
    for each in itertools.islice(_read_python(ImageReader(root), places), MOST_PACKAGES):
        if each is not None:
            found.setdefault(canonicalize(each.name), each.version)
    return found


def canonicalize(name: str) -> str:
    """A Python package's name as indexes compare it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def _read_python(image: ImageReader, places: Iterable[str]) -> Iterator[InstalledPackage | None]:
    for place in places:
        for name in sorted(image.list_names(place)):
            if name.endswith((".dist-info", ".egg-info")):
                yield _read_distribution(image, f"{place}/{name}", name)


def _find_places(image: ImageReader, python: str) -> list[str]:
    """Directories, relative to the root, that the interpreter may import packages from."""
    prefixes = dict.fromkeys(
        (ADDED, "usr/local", "usr", posixpath.normpath(posixpath.join(python, "../..")).strip("/"))
    )
    found = []
    for prefix in prefixes:
        lib = f"{prefix}/lib" if prefix else "lib"
        versions = sorted(name for name in image.list_names(lib) if _PYTHON_PLACE.fullmatch(name))
        found += [f"{lib}/{version}/{kind}-packages" for version in versions for kind in ("site", "dist")]
    return found[:_MOST_PLACES]


def _read_distribution(image: ImageReader, place: str, name: str) -> InstalledPackage | None:
    metadata = "METADATA" if name.endswith(".dist-info") else "PKG-INFO"
    text = image.read_text(f"{place}/{metadata}", _MOST_METADATA_BYTES) or image.read_text(place, _MOST_METADATA_BYTES)
    fields = _parse_fields(text.splitlines())
    installer = image.read_text(f"{place}/INSTALLER", 100).strip().lower()
    return _make("python", fields.get("name", ""), fields.get("version", ""), _INSTALLERS.get(installer, ""))


def _read_dpkg(image: ImageReader) -> Iterator[InstalledPackage | None]:
    """What dpkg has installed; images without dpkg itself have a file for each package."""
    parts = [f"var/lib/dpkg/status.d/{name}" for name in sorted(image.list_names("var/lib/dpkg/status.d"))]
    for place in ["var/lib/dpkg/status", *(each for each in parts if not each.endswith(".md5sums"))]:
        lines = io.StringIO(image.read_text(place, _MOST_DPKG_BYTES))
        for blank, paragraph in itertools.groupby(lines, str.isspace):
            if not blank:
                fields = _parse_fields(paragraph)
                there = fields.get("status", _INSTALLED) == _INSTALLED
                yield _make("system", fields.get("package", ""), fields.get("version", ""), "apt") if there else None


def _read_conda(image: ImageReader, python: str) -> Iterator[InstalledPackage | None]:
    """What conda put beside the interpreter, by the names of its records: name, version, build."""
    place = posixpath.normpath(posixpath.join(python, "../../conda-meta")).strip("/")
    for record in sorted(image.list_names(place)):
        words = record.removesuffix(".json").rsplit("-", 2)
        if record.endswith(".json") and len(words) == 3:
            yield _make("system", words[0], words[1], "conda")


def _parse_fields(lines: Iterable[str]) -> dict[str, str]:
    """The fields that matter of a head of `Name: value` lines, up to the first empty one; the first of each counts."""
    fields: dict[str, str] = {}
    for line in lines:
        if not line.strip():
            break
        name, colon, value = line.partition(":")
        if colon and name.lower() in _FIELDS:
            fields.setdefault(name.lower(), value.strip())
    return fields


def _make(kind: str, name: str, version: str, source: str) -> InstalledPackage | None:
    if not (_NAME.fullmatch(name) and _VERSION.fullmatch(version)):
        return None
    return InstalledPackage(kind, name, version, source)
