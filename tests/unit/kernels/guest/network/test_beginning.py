"""The keys and the generation that a guest is told when its pod is claimed."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from kernels.guest.network.beginning import FILES
from kernels.kubernetes.certificates import GUEST_FILES

TAKE = """
import asyncio, os, sys
from kernels.guest.network.beginning import take_beginning
try:
    print(asyncio.run(take_beginning(sys.argv[1])), os.read(0, 1))
except ValueError as error:
    print("refused")
"""
KEYS = {name: f"what {name} holds" for name in GUEST_FILES}


def take(directory: Path, line: str) -> str:
    command = [sys.executable, "-c", TAKE, str(directory / "keys")]
    return subprocess.run(command, input=line, capture_output=True, text=True, check=True, timeout=60).stdout.strip()


def test_it_is_taken_from_standard_input_of_which_nothing_is_left(tmp_path: Path) -> None:
    assert FILES == GUEST_FILES
    assert take(tmp_path, json.dumps({"generation": 3, "keys": KEYS}) + "\nwhat comes after it\n") == "3 b''"
    files = {each.name: each for each in (tmp_path / "keys").iterdir()}
    assert {name: file.read_text() for name, file in files.items()} == KEYS
    assert {file.stat().st_mode & 0o777 for file in files.values()} == {0o400}
    assert (tmp_path / "keys").stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize(
    "line",
    [
        "",
        json.dumps({"generation": 3, "keys": KEYS}),  # broken off
        json.dumps({"generation": 0, "keys": KEYS}) + "\n",
        json.dumps({"generation": 1, "keys": {}}) + "\n",
        json.dumps({"generation": 1, "keys": {**KEYS, "ca.crt": 7}}) + "\n",
        json.dumps([]) + "\n",
        "x" * (64 * 1024 + 1) + "\n",
    ],
    ids=["nothing", "a part", "no generation", "no keys", "no text", "no object", "too long"],
)
def test_what_is_no_beginning_is_refused_and_no_keys_are_written(line: str, tmp_path: Path) -> None:
    assert take(tmp_path, line) == "refused"
    assert not (tmp_path / "keys").exists()
