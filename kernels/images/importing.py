"""An environment made of an image that others built: what is accepted of it, and how it is laid down.

The image is named by the digest of its config, which names its layers by theirs; each is held against that while it is
unpacked. What root imported is trusted like what root built: it may run in sandboxes, and runs nowhere else.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from kernels.environment import Environment
from kernels.errors import EnvironmentBuildFailed
from kernels.images import inspecting, kernel_packages, trial
from kernels.images.inspection import Found, inspect
from kernels.images.manifest import Image, make_digest, read_image
from kernels.images.packages import find_importable
from kernels.images.parts import DAMAGE, describe_damage
from kernels.oci import environments, image_layers
from kernels.oci import recipe as recipes
from kernels.oci.bundle import UID_RANGE
from kernels.oci.environments import Progress
from kernels.oci.image_archives import LABEL
from kernels.oci.image_layers import Parts
from kernels.sandbox import RuntimeSettings

NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_PYTHONS: Final = f"3.{inspecting.OLDEST} to 3.{inspecting.NEWEST}"


@dataclass(frozen=True)
class Import:
    """What an image is to become; empty `name` and `python` are as the image says.

    `reference` names the image where there are several; `variables` is the environment of the package tools;
    `sandboxes` is how an image is tried whose kernel is put beside it (without it none is tried, nothing compiled).
    """

    name: str = ""
    python: str = ""
    reference: str = ""
    variables: Mapping[str, str] = field(default_factory=dict)
    sandboxes: RuntimeSettings | None = None


def import_image(parts: Parts, wanted: Import, directory: Path, progress: Progress) -> Environment:
    """The environment made of an image.

    An image that was exported from a build of this installation's recipe counts as that build. Raises
    `EnvironmentBuildFailed` and leaves nothing of the image then. Needs root.
    """
    if os.geteuid() != 0:
        raise EnvironmentBuildFailed("importing an image makes a root file system: run it as root (sudo)")
    try:
        return _import(read_image(parts, wanted.reference), parts, wanted, directory, progress)
    except DAMAGE as error:
        raise EnvironmentBuildFailed(f"the image cannot be imported: {describe_damage(error)}") from None


def require_name(name: str) -> None:
    """Raise EnvironmentBuildFailed for what no environment can be called; an empty one is left to the image."""
    if name and not NAME.fullmatch(name):
        raise EnvironmentBuildFailed(
            f"{name[:100]!r} is no name for an environment: letters, digits, '.', '_' and '-', the first of the former"
        )


def _import(image: Image, parts: Parts, wanted: Import, directory: Path, progress: Progress) -> Environment:
    require_name(wanted.name)
    name = wanted.name or image.labels.get(LABEL + "name", "")
    if not NAME.fullmatch(name):
        raise EnvironmentBuildFailed("the image says no name that an environment can have: give one with --name")
    with environments.building(directory / name):
        wanted = replace(wanted, name=name)
        there = _find_imported(image, wanted, directory, name)
        twin = None if there else _find_imported(image, wanted, directory, "*")
        if there is not None:
            digest = _read_digest(there)
        elif twin is not None:
            digest = _share(image, twin, wanted, directory, progress)
        else:
            digest = _lay_down(image, parts, wanted, directory, progress)
        target = environments.locate(directory, name, digest)
        recipe = recipes.read(name).digest if name in recipes.recipes() else ""
        built = environments.locate(directory, name, recipe)
        if recipe and recipe == image.labels.get(LABEL + "recipe") and (built.is_symlink() or not built.exists()):
            environments.point(built, target.name)
        environments.point(directory / name / "current", target.name)
    return environments.find(directory, name, digest)


def _find_imported(image: Image, wanted: Import, directory: Path, name: str) -> Path | None:
    """The build that this image has become already, as it would become now; `name` is that of builds, or a pattern."""
    for path in sorted(directory.glob(f"{name}/sha256-*/environment.json")):
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            declared = json.loads(path.read_text())
            origin = declared["origin"]
            current = origin["kernel_packages"] in {"", kernel_packages.digest_lock(origin["minor"])}
            if origin["image"] == image.digest and origin["asked_python"] == wanted.python and current:
                return path.parent
    return None


def _read_digest(build: Path) -> str:
    return str(json.loads((build / "environment.json").read_text())["digest"])


def _share(image: Image, twin: Path, wanted: Import, directory: Path, progress: Progress) -> str:
    """Make a build of the files that another name has of the same image: each is stored once, by hard links.

    Nothing writes to either: a root file system is read-only in sandboxes, which have views of their own of it.
    """
    progress(f"the image is here as {twin.parent.name}: sharing its files")
    declared = json.loads((twin / "environment.json").read_text())
    with environments.stage(environments.locate(directory, wanted.name, declared["digest"])) as unfinished:
        command = ["cp", "--archive", "--link", "--", str(twin / "root"), str(unfinished / "root")]
        done = subprocess.run(command, capture_output=True, check=False)
        if done.returncode:
            raise EnvironmentBuildFailed(
                f"files cannot be shared: {done.stderr.decode(errors='replace')[-500:].strip()}"
            )
        description = image.labels.get(LABEL + "description", "")
        environments.declare(unfinished, **{**declared, "name": wanted.name, "description": description})
    return str(declared["digest"])


def _lay_down(image: Image, parts: Parts, wanted: Import, directory: Path, progress: Progress) -> str:
    """Unpack and check an image as a build of its name; the digest of what has become of it."""
    asked = wanted.python or image.labels.get(LABEL + "python", "")
    with environments.stage(environments.locate(directory, wanted.name, image.digest)) as unfinished:
        root = unfinished / "root"
        image_layers.unpack(parts, image.layers, root, progress, user=image.user)
        found = inspect(root, image.path, asked)
        minor = require_usable(image, found, asked)
        packages = "" if found.ipykernel else kernel_packages.digest_lock(minor)
        if packages:
            archive = kernel_packages.fetch_packages(
                minor, directory / kernel_packages.CACHE, progress, variables=wanted.variables
            )
            _add_kernel_packages(root, found, archive, progress)
            if wanted.sandboxes is not None:
                _try(Environment(wanted.name, str(root), image.digest, python=found.python), wanted.sandboxes, progress)
        digest = image.digest
        if packages or wanted.python:  # another root file system, or another interpreter
            digest = make_digest(f"{image.digest} with {packages or 'nothing'} for {found.python}".encode())
        environments.declare(
            unfinished,
            name=wanted.name,
            digest=digest,
            description=image.labels.get(LABEL + "description", ""),
            python=found.python,
            variables=dict(image.variables),
            origin={"image": image.digest, "asked_python": wanted.python, "minor": minor, "kernel_packages": packages},
        )
        target = environments.locate(directory, wanted.name, digest)
        if target.exists():  # of a version that did not write down where it came from, or named its Python otherwise
            environments.remove_tree(unfinished)
        else:
            unfinished.rename(target)
    return digest


def _add_kernel_packages(root: Path, found: Found, archive: Path, progress: Progress) -> None:
    there = find_importable(str(root), found.sites)
    kernel_packages.require_compatible(kernel_packages.read_floors(archive), there)
    progress(f"the image's Python 3.{found.minor} has no ipykernel: one is put beside it, in /{kernel_packages.PLACE}")
    image_layers.add_layer(archive, root)


def _try(environment: Environment, settings: RuntimeSettings, progress: Progress) -> None:
    progress("trying its kernel in a sandbox, and compiling")
    root = Path(environment.root)
    compiled = root.with_name("compiled")
    trial.try_image(environment, settings, compiled)
    image_layers.add_layer(compiled, root)
    compiled.unlink()


def require_usable(image: Image, found: Found, python: str) -> int:
    """The x of its Python 3.x; raises `EnvironmentBuildFailed`, with what to do, when no sandbox can have it."""
    if found.minor is None:
        where = python or f"python3 in {':'.join(image.path)}"
        raise EnvironmentBuildFailed(f"the image has no {where}; install Python {_PYTHONS}, or name it with --python")
    if not inspecting.is_taken(found.minor):
        raise EnvironmentBuildFailed(
            f"the image's {found.python} is Python 3.{found.minor}; install Python {_PYTHONS}, or name it with --python"
        )
    user = image.user or "root"
    number = int(user[:10]) if user.isascii() and user.isdigit() else found.users.get(user, 0 if user == "root" else -1)
    if number < 0:
        raise EnvironmentBuildFailed(f"the image's USER is {user[:40]!r}, which its /etc/passwd does not have")
    if number >= UID_RANGE:
        raise EnvironmentBuildFailed(f"the image's USER is {number}; a sandbox has users 0 to {UID_RANGE - 1}")
    return found.minor
