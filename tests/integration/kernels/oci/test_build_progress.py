"""What a build says while it goes on: how long, how large, and what is done now."""

from __future__ import annotations

from pathlib import Path

import pytest

from kernels.errors import EnvironmentBuildFailed
from kernels.oci import environments
from kernels.oci.environments import tell_of_mmdebstrap, tell_of_pip

PIP = """Collecting numpy==2.4.6 (from -r requirements.txt (line 1))
  Downloading numpy-2.4.6-cp311-cp311-manylinux_2_28_x86_64.whl (16.6 MB)
Collecting pandas==3.0.0 (from -r requirements.txt (line 9))
"""
MMDEBSTRAP = """I: automatically chosen mode: root
I: chroot architecture amd64 is equal to the host's architecture
I: running apt-get update...
I: downloading packages with apt...
Get:1 some file
"""


def test_the_programs_words_become_a_few() -> None:
    assert tell_of_mmdebstrap(MMDEBSTRAP) == "downloading packages with apt"
    assert tell_of_mmdebstrap("") == ""
    assert tell_of_pip("", 90) == "package 0 of 90"
    assert tell_of_pip(PIP, 90) == "package 2 of 90"
    assert tell_of_pip(PIP, 90, before=40) == "package 42 of 90"


def test_a_step_that_goes_on_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It ends once it has been seen to say something."""
    monkeypatch.setattr(environments, "_SAY_SECONDS", 0.05)
    (tmp_path / "root").mkdir()
    (tmp_path / "root/file").write_bytes(bytes(3_000_000))
    lines: list[str] = []

    def hear(line: str) -> None:
        lines.append(line)
        if "halfway" in line:
            (tmp_path / "root/seen").touch()

    command = ["sh", "-c", f"echo 'I: halfway...'; while [ ! -e {tmp_path}/root/seen ]; do sleep 0.05; done"]
    step = environments._Step("a step", command, hear, tell=tell_of_mmdebstrap)
    environments._run(step, tmp_path / "build.log", {"PATH": "/usr/bin:/bin"})
    assert "3 MB so far, halfway" in lines[-1]


def test_a_step_that_fails_says_its_last_lines(tmp_path: Path) -> None:
    step = environments._Step("a step", ["sh", "-c", "echo no such mirror; exit 4"], lambda _: None)
    with pytest.raises(EnvironmentBuildFailed, match="a step failed with exit status 4:\nno such mirror"):
        environments._run(step, tmp_path / "build.log", {"PATH": "/usr/bin:/bin"})
