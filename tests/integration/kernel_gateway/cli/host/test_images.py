"""`sandcell environments import` says in a sentence what is wrong, before it has done much."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

FILE_BYTES = 262_144
"""The largest file that the command may write."""


def run(directory: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [str(Path(sys.executable).with_name("sandcell")), "environments", "import", *arguments]
    variables = {**os.environ, "SANDCELL_DATA_DIR": str(directory / "data"), "TMPDIR": str(directory)}
    limited = ["prlimit", f"--fsize={FILE_BYTES}", *command]
    return subprocess.run(limited, env=variables, capture_output=True, text=True, timeout=120, check=False)


@pytest.mark.parametrize("name", ["we b", "../web"])
def test_a_wrong_name_is_told_before_the_image_is_looked_for(name: str, tmp_path: Path) -> None:
    refused = run(tmp_path, name, "dir:/no/such/directory")
    assert refused.returncode == 7
    assert refused.stderr.startswith(f"sandcell: {name!r} is no name for an environment"), refused.stderr


def test_a_directory_that_cannot_be_packed_is_no_traceback(tmp_path: Path) -> None:
    (tmp_path / "root").mkdir()
    (tmp_path / "root/large").write_bytes(os.urandom(2 * FILE_BYTES))
    refused = run(tmp_path, "web", f"dir:{tmp_path}/root")
    assert refused.returncode == 7
    last = refused.stderr.splitlines()[-1]
    assert last.startswith(f"sandcell: {tmp_path}/root cannot be packed: [Errno 27] File too large"), refused.stderr
