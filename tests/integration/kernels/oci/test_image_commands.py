"""The commands that come with the image's packages: on PATH, scripts for its own Python, naming nothing of the host."""

from __future__ import annotations

from pathlib import Path

from kernels.environment import Environment

REPOSITORY = Path(__file__).parents[4]


def test_commands_are_on_the_path_and_run_the_images_python(environment: Environment) -> None:
    commands = [path for path in Path(environment.root, "usr/local/bin").iterdir() if path.is_file()]
    assert {"aws", "deno", "ipython", "pip"} <= {path.name for path in commands}
    firsts = {path.name: path.read_bytes().partition(b"\n")[0].decode(errors="replace") for path in commands}
    pythons = {name: first for name, first in firsts.items() if first.startswith("#!") and "python" in first}
    assert {"aws", "ipython", "pip"} <= pythons.keys()
    assert set(pythons.values()) == {"#!/usr/bin/python3"}
    assert [path.name for path in commands if str(REPOSITORY).encode() in path.read_bytes()] == []
