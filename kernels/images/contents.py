"""What is known of a built image: its Python, packages, kernels, size. Found once, kept beside its root file system.

What names it came from the image and is data: bounded, never interpreted.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
import platform
import re
import time
from pathlib import Path
from typing import Any, Final

import msgspec

from kernels.environment import Environment
from kernels.images.inspection import inspect
from kernels.images.kernelspecs import read_kernelspecs
from kernels.images.manifest import DEFAULT_PATH
from kernels.images.packages import canonicalize, read_packages
from kernels.languages import PYTHON
from kernels.oci.environments import measure_size
from kernels.oci.image_layers import require_size

FILE: Final = "contents.json"
_LONGEST_FILE_BYTES: Final = 16 << 20
_KEPT: Final = 32
_SEALED: Final = (
    "",
    "bin",
    "etc",
    "opt",
    "opt/sandcell",
    "opt/sandcell/kernel",
    "usr",
    "usr/bin",
    "usr/lib",
    "usr/local/bin",
)


class Package(msgspec.Struct, frozen=True):
    """One package: its kind is that of package URLs, `pypi`, `deb` or `conda`."""

    kind: str
    name: str
    version: str


class Contents(msgspec.Struct, frozen=True):
    """What is in an image. `built_at` is in seconds since 1970; `seal` is as `compute_seal` had it then.

    `notes` are sentences on what is missing in it: packages whose script failed.
    """

    system: str
    python_version: str
    bytes: int
    built_at: float
    packages: tuple[Package, ...]
    kernels: tuple[str, ...] = ()
    seal: str = ""
    notes: tuple[str, ...] = ()


def record(environment: Environment) -> None:
    """Look at a built image and keep what is found, unless that is done already.

    Needs root; raises `EnvironmentBuildFailed`.
    """
    root = Path(environment.root)
    place = root.with_name(FILE)
    if place.exists():
        return
    path = dict(environment.variables).get("PATH", "") or DEFAULT_PATH
    found = inspect(root, tuple(path.split(":")), environment.python)
    size = measure_size(root)
    require_size(size)
    declared = root.parent / "environment.json"
    contents = Contents(
        system=found.system,
        python_version="" if found.minor is None else f"3.{found.minor}",
        bytes=size,
        built_at=declared.stat().st_mtime,
        packages=_list_packages(environment),
        kernels=tuple(
            each.language for each in read_kernelspecs(environment.root, environment.python) if each.language != PYTHON
        ),
        seal=compute_seal(root),
        notes=tuple(json.loads(declared.read_text()).get("notes", ())),
    )
    unfinished = place.with_name(f".{FILE}.{os.getpid()}")
    unfinished.write_bytes(msgspec.json.encode(contents))
    unfinished.chmod(0o644)
    unfinished.replace(place)


def _list_packages(environment: Environment) -> tuple[Package, ...]:
    """Each once, by kind and name, as indexes write it; of what both pip and a system have, either says the version."""
    found = set()
    for each in read_packages(environment.root, environment.python):
        if each.kind == "python":
            found.add(("pypi", canonicalize(each.name), each.version))
        else:
            found.add(("conda" if each.source == "conda" else "deb", each.name, each.version))
    return tuple(Package(*each) for each in sorted(found))


@functools.lru_cache(_KEPT)
def _read(place: str, _changed: int) -> Contents:
    with Path(place).open("rb") as file:
        return msgspec.json.decode(file.read(_LONGEST_FILE_BYTES), type=Contents)


def read(environment: Environment) -> Contents | None:
    """What was kept of an image; None for one of which nothing was, or nothing that can be read."""
    place = Path(environment.root).with_name(FILE)
    try:
        return _read(str(place), place.stat().st_mtime_ns)
    except (OSError, msgspec.MsgspecError):
        return None


def find_change(environment: Environment) -> bool:
    """Whether an image's root file system is another than it was when it was built, as far as its seal shows that.

    A matter of milliseconds. An image without a seal, of an older version, counts as unchanged.
    """
    kept = read(environment)
    return kept is not None and bool(kept.seal) and kept.seal != compute_seal(Path(environment.root))


def compute_seal(root: Path) -> str:
    """A digest of names, modes, owners, sizes and times in the directories that programs are in; no file is read.

    Not every change shows in it: it is for accidents, an operator's or a backup's. Only root can change an image.
    """
    found = hashlib.sha256()
    for name in _SEALED:
        directory = root / name
        if directory.is_symlink() or not directory.is_dir():
            continue
        for entry in sorted(os.scandir(directory), key=lambda each: each.name):
            seen = entry.stat(follow_symlinks=False)
            size = 0 if entry.is_dir(follow_symlinks=False) else seen.st_size
            found.update(f"{name}/{entry.name}\0{seen.st_mode} {seen.st_uid} {size} {int(seen.st_mtime)}\n".encode())
    return found.hexdigest()


def make_sbom(environment: Environment, contents: Contents) -> dict[str, Any]:
    """The software bill of materials of an image, as CycloneDX 1.5 JSON. Pure: the same for the same image."""
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {
            "timestamp": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(contents.built_at)),
            "component": {
                "type": "container",
                "bom-ref": environment.digest,
                "name": environment.image or environment.name,
                "version": environment.digest,
            },
        },
        "components": [_describe(each, contents.system) for each in contents.packages],
    }


def _describe(package: Package, system: str) -> dict[str, str]:
    # A version of Debian may have characters that a package URL keeps for itself.
    version = re.sub(r"[^A-Za-z0-9.~_-]", lambda found: f"%{ord(found[0]):02X}", package.version)
    vendor = f"{'ubuntu' if system.startswith('Ubuntu') else 'debian'}/" if package.kind == "deb" else ""
    name = package.name.replace("+", "%2B")
    purl = f"pkg:{package.kind}/{vendor}{name}@{version}"
    if package.kind == "deb":
        purl += f"?arch={'amd64' if platform.machine() == 'x86_64' else 'arm64'}"
    return {"type": "library", "bom-ref": purl, "name": package.name, "version": package.version, "purl": purl}
