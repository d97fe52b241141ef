"""Looks at the root file system of an image: its Python, where that has packages, its users. A script.

Nothing of the image is run. This process makes the directory its root before it looks, so that no link leads out of it,
and reads every file within bounds; what it finds it writes as JSON.
"""

from __future__ import annotations

import json
import os
import re
import sys
from typing import Final

if __name__ == "__main__":  # a script that is isolated has no path of its own
    sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
from kernels.oci.unpacking import enter

OLDEST: Final = 9
NEWEST: Final = 14
"""Minor versions of the Pythons that are taken."""
_NAMES: Final = ("python3", "python", *(f"python3.{minor}" for minor in range(NEWEST, OLDEST - 1, -1)))
_VERSIONED: Final = re.compile(r"python3\.(\d{1,2})")
_LIBRARY: Final = re.compile(r"python3\.(\d{1,2})")
_LONGEST_FILE_BYTES: Final = 64 << 10


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
            "sites": [os.path.realpath(site) for site in sites],
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
    settings = read_text(f"{own}/pyvenv.cfg", _LONGEST_FILE_BYTES)
    if settings:
        shares = re.search(r"^include-system-site-packages\s*=\s*true\s*$", settings, re.MULTILINE | re.IGNORECASE)
        sites = [f"{own}/lib/{version}/site-packages", *(sites if shares else [])]
    return [each for each in sites if os.path.isdir(each)]


def read_users() -> dict[str, int]:
    """Names and numbers of /etc/passwd."""
    lines = (line.split(":") for line in read_text("/etc/passwd", _LONGEST_FILE_BYTES).splitlines()[:1000])
    return {line[0]: int(line[2]) for line in lines if len(line) > 2 and line[2].isascii() and line[2].isdigit()}


def read_system() -> str:
    """What the image calls itself."""
    found = re.search(r'^PRETTY_NAME="?([^"\n]{1,100})"?$', read_text("/etc/os-release", _LONGEST_FILE_BYTES), re.M)
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
