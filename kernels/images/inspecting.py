"""Looks at the root file system of an image: its Python, ipykernel, its user, its packages, its kernels. A script.

Nothing of the image is run. This process makes the directory its root before it looks, so that no link leads out of it,
and reads every file within bounds; what it finds it writes as JSON.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterator
from typing import Any, Final

if __name__ == "__main__":  # a script that is isolated has no path of its own
    sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
from kernels.kernelspec import MOST_BYTES, parse_kernelspec
from kernels.oci.unpacking import enter

OLDEST: Final = 9
NEWEST: Final = 14
"""Minor versions of the Pythons that are taken."""
_NAMES: Final = ("python3", "python", *(f"python3.{minor}" for minor in range(NEWEST, OLDEST - 1, -1)))
_VERSIONED: Final = re.compile(r"python3\.(\d{1,2})")
_LIBRARY: Final = re.compile(r"python3\.(\d{1,2})")
_DIST_INFO: Final = re.compile(
    r"([A-Za-z0-9][A-Za-z0-9._]{0,199})-([A-Za-z0-9][A-Za-z0-9.!+_]{0,99})\.(?:dist|egg)-info"
)
_KERNELS: Final = ("usr/local/share/jupyter/kernels", "usr/share/jupyter/kernels")
_MOST_PACKAGES: Final = 20_000
_MOST_KERNELS: Final = 20
_LONGEST_STATUS_BYTES: Final = 32 << 20
_LONGEST_SPEC_BYTES: Final = 64 << 10
_LONGEST_VALUE: Final = 200


def main(root: str, seconds: str, path: str, python: str) -> None:
    """Write what is found, or end with a line that describes what is wrong."""
    enter(root, int(seconds))
    try:
        found = python or find_python(path.split(":"))
        minor = read_minor(found) if found else None
        sites = list_sites(found, minor) if minor is not None else []
        answer = {
            "python": found,
            "minor": minor,
            "ipykernel": any(os.path.isfile(f"{site}/ipykernel/__init__.py") for site in sites),
            "packages": list_packages(sites),
            "kernels": list_kernels(found),
            "users": read_users(),
            "system": read_system(),
        }
    except (OSError, ValueError, RecursionError, MemoryError) as error:
        sys.exit(str(error) or type(error).__name__)
    json.dump(answer, sys.stdout)


def find_python(path: list[str]) -> str:
    """The first interpreter of a version that is taken, else the first of any; empty when there is none."""
    found = [f"{place}/{name}" for place in path for name in _NAMES if os.access(f"{place}/{name}", os.X_OK)]
    found = [each for each in found if os.path.isfile(each)]
    fitting = (each for each in found if is_taken(read_minor(each)))
    return next(fitting, found[0] if found else "")


def is_taken(minor: int | None) -> bool:
    """Whether it is a version that Sandcell runs on."""
    return minor is not None and OLDEST <= minor <= NEWEST


def read_minor(python: str) -> int | None:
    """The x of the 3.x that an interpreter is, by its name or by its library; None for what is no CPython 3."""
    if not (python.startswith("/") and os.path.isfile(python) and os.access(python, os.X_OK)):
        return None
    real = os.path.realpath(python)
    named = _VERSIONED.fullmatch(os.path.basename(real))
    if named:
        return int(named[1])
    library = os.path.join(os.path.dirname(os.path.dirname(real)), "lib")
    minors = [int(each[1]) for each in map(_LIBRARY.fullmatch, list_names(library)) if each]
    minors = [each for each in minors if os.path.isfile(f"{library}/python3.{each}/os.py")]
    return minors[0] if len(minors) == 1 and os.path.basename(real).startswith("python") else None


def list_sites(python: str, minor: int) -> list[str]:
    """The directories of packages that this interpreter imports from, in their order."""
    version = f"python3.{minor}"
    prefix = os.path.dirname(os.path.dirname(os.path.realpath(python)))
    sites = [f"{prefix}/lib/{version}/site-packages"]
    if prefix == "/usr":  # Debian's
        sites = [f"/usr/local/lib/{version}/dist-packages", "/usr/lib/python3/dist-packages", *sites]
    own = os.path.dirname(os.path.dirname(os.path.abspath(python)))
    settings = read_text(f"{own}/pyvenv.cfg", _LONGEST_SPEC_BYTES)
    if settings:
        shares = re.search(r"^include-system-site-packages\s*=\s*true\s*$", settings, re.MULTILINE | re.IGNORECASE)
        sites = [f"{own}/lib/{version}/site-packages", *(sites if shares else [])]
    return [each for each in sites if os.path.isdir(each)]


def list_packages(sites: list[str]) -> list[dict[str, str]]:
    """Python's packages and Debian's: kind, name and version each. The first of a name counts, as for an import."""
    found: dict[tuple[str, str], dict[str, str]] = {}
    for kind, name, version in [*list_distributions(sites), *list_debian()]:
        if len(found) >= _MOST_PACKAGES:
            raise ValueError(f"the image has more than {_MOST_PACKAGES:,} packages")
        found.setdefault((kind, name), {"kind": kind, "name": name, "version": version})
    return [found[key] for key in sorted(found)]


def list_distributions(sites: list[str]) -> Iterator[tuple[str, str, str]]:
    """Names and versions of what is installed in these directories, by the names of their metadata."""
    for site in sites:
        for each in list_names(site):
            parts = _DIST_INFO.fullmatch(re.sub(r"-py3(\.\d+)?(?=\.egg-info$)", "", each))
            if parts:
                yield "pypi", re.sub(r"[-_.]+", "-", parts[1]).lower(), parts[2]


def list_debian() -> Iterator[tuple[str, str, str]]:
    """Names and versions of what dpkg has installed."""
    for stanza in read_text("/var/lib/dpkg/status", _LONGEST_STATUS_BYTES).split("\n\n"):
        fields = dict(line.partition(": ")[::2] for line in stanza.splitlines())
        name, version = fields.get("Package", ""), fields.get("Version", "")
        if fields.get("Status", "").endswith(" installed") and re.fullmatch(r"[a-z0-9][a-z0-9+.-]{0,199}", name):
            yield "deb", name, version[:_LONGEST_VALUE]


def list_kernels(python: str) -> list[dict[str, Any]]:
    """The kernels that the image declares by a `kernel.json`, but for Python's: name and language each."""
    found: dict[str, dict[str, Any]] = {}
    own = os.path.dirname(os.path.dirname(python)) if python else "/usr"
    for place in (f"{own}/share/jupyter/kernels", *(f"/{each}" for each in _KERNELS)):
        for name in list_names(place):
            directory = f"{place}/{name}"
            spec = parse_kernelspec(name, read_text(f"{directory}/kernel.json", MOST_BYTES), directory, python)
            if spec is not None and spec.language != "python":
                found.setdefault(name, {"name": name, "language": spec.language})
    return [found[name] for name in sorted(found)][:_MOST_KERNELS]


def read_users() -> dict[str, int]:
    """Names and numbers of /etc/passwd."""
    lines = (line.split(":") for line in read_text("/etc/passwd", _LONGEST_SPEC_BYTES).splitlines()[:1000])
    return {line[0]: int(line[2]) for line in lines if len(line) > 2 and line[2].isascii() and line[2].isdigit()}


def read_system() -> str:
    """What the image calls itself."""
    found = re.search(r'^PRETTY_NAME="?([^"\n]{1,100})"?$', read_text("/etc/os-release", _LONGEST_SPEC_BYTES), re.M)
    return found[1] if found and found[1].isprintable() else ""


def list_names(directory: str) -> list[str]:
    """What is in a directory; nothing when it cannot be read."""
    try:
        return sorted(os.listdir(directory))
    except OSError:
        return []


def read_text(path: str, most_bytes: int) -> str:
    """A regular file's text, up to so many bytes; empty when it cannot be read."""
    try:
        if not os.path.isfile(path):
            return ""
        with open(path, "rb") as file:
            return file.read(most_bytes).decode(errors="replace")
    except OSError:
        return ""


if __name__ == "__main__":
    main(*sys.argv[1:])
