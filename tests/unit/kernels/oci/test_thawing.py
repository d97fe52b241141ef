"""A stopped sandbox goes on when it is wanted, or its caller hears that it does not."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from kernels.errors import SandboxFailed
from kernels.oci.cgroups import Cgroups
from kernels.oci.idle_memory import IdleMemory
from tests.unit.kernels.oci.test_cgroups import V2, V2_OWN, write
from tests.unit.kernels.sandboxed.test_exhausted_host import descriptors_left


class Group:
    """A sandbox's group on cgroup v2, in files that stay as they are written."""

    def __init__(self, tmp_path: Path) -> None:
        self.cgroups = Cgroups("sandcell-t", mounts=V2.format(root=tmp_path), own=V2_OWN)
        self.place = tmp_path / "system.slice/sandcell-t/a"
        write(tmp_path / "cgroup.controllers", "memory\n")
        write(self.place / "cgroup.freeze", "1")
        write(self.place / "cgroup.events", "populated 1\nfrozen 1\n")
        write(self.place / "cgroup.procs", f"{2**31 - 2}\n")  # no process has so high a number
        write(self.place / "memory.swap.max", "5")
        write(self.place / "memory.stat", "anon 100\nshmem 0\n")

    @property
    def frozen(self) -> bool:
        return (self.place / "cgroup.freeze").read_text() == "1"


def test_what_cannot_be_read_is_not_taken_for_gone(tmp_path: Path) -> None:
    group = Group(tmp_path)
    memory = IdleMemory(group.cgroups)
    with descriptors_left(0), pytest.raises(SandboxFailed, match="Too many open files"):
        memory.thaw("a")
    assert group.frozen
    memory.thaw("a")
    assert not group.frozen
    memory.thaw("b")


def test_one_that_goes_on_has_not_failed_when_its_swap_cannot_be_bounded(tmp_path: Path) -> None:
    group = Group(tmp_path)
    (group.place / "memory.swap.max").unlink()
    (group.place / "memory.swap.max").mkdir()
    IdleMemory(group.cgroups).thaw("a")
    assert not group.frozen


class WantedLate(threading.Event):
    """Set as soon as somebody has asked after the last look at swap."""

    last_look = False

    def is_set(self) -> bool:
        was = super().is_set()
        if self.last_look:
            self.set()
        return was


def test_one_that_is_kept_stopped_is_said_to_be(tmp_path: Path) -> None:
    group, stop, looks = Group(tmp_path), WantedLate(), iter([False, True])

    def read() -> dict[str, int]:
        stop.last_look = next(looks)
        return {"SwapFree": 1 << 40}

    held = iter([100, *[0] * 9])
    group.cgroups.held_bytes = lambda _sandbox_id: next(held)  # type: ignore[method-assign]
    group.cgroups.reclaim = lambda _sandbox_id, _piece: False  # type: ignore[method-assign]
    assert IdleMemory(group.cgroups, read=read).page_out("a", stop).moved_bytes == 100
    assert group.frozen
