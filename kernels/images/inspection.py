"""What is in the root file system of an image: its Python, where that has packages, its users. Nothing of it is run.

A process that is confined to it looks (`inspecting`); what it says is data.
"""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Final

import msgspec

from kernels.errors import EnvironmentBuildFailed
from kernels.images import inspecting
from kernels.oci import image_layers

_SCRIPT: Final = str(Path(inspecting.__file__))


class Found(msgspec.Struct):
    """What `inspecting` found in a root file system; `minor` is None where it is no Python 3.

    `sites` are the directories that the interpreter imports packages from, in their order.
    """

    python: str
    minor: int | None
    ipykernel: bool
    sites: list[str]
    users: dict[str, int]
    system: str


def inspect(root: Path, path: tuple[str, ...], python: str) -> Found:
    """What is in a root file system, looked at by a process that is confined to it; raises `EnvironmentBuildFailed`."""
    command = image_layers.make_command(_SCRIPT, root, ":".join(path), python)
    variables = image_layers.ENVIRONMENT
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, env=variables, check=False)
    if done.returncode:
        raise EnvironmentBuildFailed(image_layers.describe_failure(done.returncode, done.stderr))
    return msgspec.json.decode(done.stdout, type=Found)
