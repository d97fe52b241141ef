"""The recipe of an environment: a folder with `environment.toml`, `requirements.txt` and `finish.sh`.

`requirements.txt` names every package's version and the hashes of its files; `scripts/lock` writes it.

An image is named by its recipe's digest: the same recipe on the same architecture is built once.
"""

from __future__ import annotations

import hashlib
import platform
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from kernels.errors import EnvironmentBuildFailed, UnknownEnvironment

_PACKAGE: Final = Path(__file__).parent.parent
_FOLDERS: Final = (_PACKAGE / "recipes", _PACKAGE.parent / "environments")
"""In an installed wheel, and in a checkout."""

_BUILD_FORMAT: Final = b"1"
"""Raised when the builder itself changes what it makes of a recipe."""


class _Declared(msgspec.Struct, forbid_unknown_fields=True):
    """`environment.toml`."""

    description: str
    suite: str
    python: str
    python_version: str
    packages: list[str]


@dataclass(frozen=True)
class Recipe:
    """What to build: a Debian suite, its packages, what pip installs, and a script that runs in the new root."""

    name: str
    description: str
    suite: str
    python: str
    python_version: str
    packages: tuple[str, ...]
    requirements: Path
    finish: Path
    digest: str


def recipes() -> dict[str, Path]:
    """Names and folders of the recipes this installation has."""
    found = (path.parent for folder in _FOLDERS for path in sorted(folder.glob("*/environment.toml")))
    return {path.name: path for path in found}


def read(name: str) -> Recipe:
    """Read a recipe by name; raises `UnknownEnvironment` naming those there are."""
    folders = recipes()
    if name not in folders:
        raise UnknownEnvironment(f"no recipe for an environment {name!r}; there are: {', '.join(sorted(folders))}")
    folder = folders[name]
    try:
        declared = msgspec.convert(tomllib.loads((folder / "environment.toml").read_text()), _Declared)
    except (tomllib.TOMLDecodeError, msgspec.ValidationError) as error:
        raise EnvironmentBuildFailed(f"environment.toml of {name!r}: {error}") from None
    return Recipe(
        name=name,
        description=declared.description,
        suite=declared.suite,
        python=declared.python,
        python_version=declared.python_version,
        packages=tuple(declared.packages),
        requirements=folder / "requirements.txt",
        finish=folder / "finish.sh",
        digest=_digest(folder),
    )


def _digest(folder: Path) -> str:
    found = hashlib.sha256(_BUILD_FORMAT + platform.machine().encode())
    for name in ("environment.toml", "requirements.txt", "finish.sh"):
        content = (folder / name).read_bytes()
        found.update(f"\0{name}\0{len(content)}\0".encode() + content)
    return f"sha256:{found.hexdigest()}"
