"""Stopping a sandbox that is wanted meanwhile, with control groups that are files: their processes never stop."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from kernels.errors import SandboxFailed
from kernels.oci import idle_memory
from kernels.oci.cgroups import Cgroups
from kernels.oci.idle_memory import IdleMemory

MOUNTS = "30 20 0:1 / {root} rw - cgroup2 cgroup2 rw,nsdelegate\n"


def make_group(root: Path) -> tuple[IdleMemory, Path]:
    """One with the sandbox `a`, and its group."""
    group = root / "box/sandcell-t/a"
    group.mkdir(parents=True)
    (root / "cgroup.controllers").write_text("memory\n")
    for name, text in {
        "cgroup.procs": "7\n",
        "cgroup.freeze": "0\n",
        "cgroup.events": "populated 1\nfrozen 0\n",
        "memory.stat": "anon 11\nshmem 0\n",
    }.items():
        (group / name).write_text(text)
    groups = Cgroups("sandcell-t", mounts=MOUNTS.format(root=root), own="0::/box/sandcell.service\n")
    return IdleMemory(groups, read=lambda: {"SwapFree": 1 << 30}), group


def test_who_wants_it_does_not_wait_for_processes_that_do_not_stop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory, group = make_group(tmp_path)
    monkeypatch.setattr(idle_memory, "FREEZE_SECONDS", 3600.0)
    wanted, said = threading.Event(), []
    moving = threading.Thread(target=lambda: said.append(memory.page_out("a", wanted)), daemon=True)
    moving.start()
    while (group / "cgroup.freeze").read_text() != "1":
        assert moving.is_alive()
    wanted.set()
    moving.join(120)
    assert [(each.moved_bytes, each.why) for each in said] == [(0, "the sandbox was wanted")]
    assert (group / "cgroup.freeze").read_text() == "0"


def test_processes_that_do_not_stop_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    memory, group = make_group(tmp_path)
    monkeypatch.setattr(idle_memory, "FREEZE_SECONDS", 0.0)
    with pytest.raises(SandboxFailed, match="did not stop"):
        memory.page_out("a", threading.Event())
    assert (group / "cgroup.freeze").read_text() == "0"
