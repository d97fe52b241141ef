"""Builds of an environment that fail: nothing of them stays, and nothing of the host goes with them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kernels.errors import EnvironmentBuildFailed
from kernels.oci import environments

HANGS = """\
#!/bin/sh
# Mounts what a bootstrap mounts in the new root, leaves a child behind, and never ends.
for root; do :; done
mkdir -p "$root/dev/shm"
mount --bind {shared} "$root/dev/shm"
sleep 987654 &
sleep 987654
"""


def test_a_bootstrap_that_hangs_leaves_nothing_and_takes_nothing_of_the_host(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    (shared / "of the host").write_text("kept")
    program = tmp_path / "bin/mmdebstrap"
    program.parent.mkdir()
    program.write_text(HANGS.format(shared=shared))
    program.chmod(0o755)
    monkeypatch.setattr(environments, "_STEP_SECONDS", 1)
    with pytest.raises(EnvironmentBuildFailed, match="did not end in 1 s"):
        environments.build(
            "python",
            tmp_path / "environments",
            lambda _step: None,
            variables={"PATH": f"{program.parent}:{os.environ['PATH']}"},
        )
    assert (shared / "of the host").read_text() == "kept"
    assert str(tmp_path) not in Path("/proc/self/mountinfo").read_text()
    assert not [path for path in Path("/proc").glob("[0-9]*/cmdline") if b"987654" in _read(path)]
    assert environments.find_installed(tmp_path / "environments") == {}


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""
