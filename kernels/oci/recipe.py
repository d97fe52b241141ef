"""The recipe of an environment: a folder with `environment.toml`, `requirements.txt` and `finish.sh`.

`requirements.txt` names every package's version and the hashes of its files; `scripts/lock` writes it. `finish_with`
in `environment.toml` names a recipe whose `finish.sh` runs after this one's own. `built.json`, where there is one, says
how large a build was, and is no part of the recipe.

An image is named by its recipe's digest: the same recipe on the same architecture is built once.
"""

from __future__ import annotations

import hashlib
import platform
import tomllib
from collections.abc import Sequence
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
    finish_with: str = ""


class Sizes(msgspec.Struct):
    """Of `built.json`, which is written of a build that was tried: what it takes."""

    download_bytes: int
    disk_bytes: int


class Recipe(msgspec.Struct, frozen=True):
    """What to build: a Debian suite, its packages, what pip installs, and scripts that run in the new root."""

    name: str
    description: str
    suite: str
    python: str
    python_version: str
    packages: tuple[str, ...]
    requirements: Path
    finish: tuple[Path, ...]
    digest: str
    sizes: Sizes | None


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
    finish_with = [declared.finish_with] if declared.finish_with else []
    if unknown := [each for each in finish_with if each not in folders]:
        raise EnvironmentBuildFailed(f"environment.toml of {name!r}: no recipe {unknown[0]!r} to finish with")
    finish = tuple(folders[each] / "finish.sh" for each in (name, *finish_with))
    return Recipe(
        name=name,
        description=declared.description,
        suite=declared.suite,
        python=declared.python,
        python_version=declared.python_version,
        packages=tuple(declared.packages),
        requirements=folder / "requirements.txt",
        finish=finish,
        digest=_digest(folder, finish),
        sizes=_read_sizes(folder / "built.json"),
    )


def _read_sizes(path: Path) -> Sizes | None:
    return msgspec.json.decode(path.read_bytes(), type=Sizes) if path.exists() else None


def _digest(folder: Path, finish: Sequence[Path]) -> str:
    found = hashlib.sha256(_BUILD_FORMAT + platform.machine().encode())
    for path in (folder / "environment.toml", folder / "requirements.txt", *finish):
        content = path.read_bytes()
        found.update(f"\0{path.name}\0{len(content)}\0".encode() + content)
    return f"sha256:{found.hexdigest()}"
