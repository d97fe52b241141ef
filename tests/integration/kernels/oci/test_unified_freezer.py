"""Stopping and moving processes by cgroup v2's freezer, in a real group of it, also where v1 has the controllers.

There v2 has no memory controller, so what is held is counted as the processes have it.
"""

from __future__ import annotations

import hashlib
import os
import select
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from kernels.oci.cgroups import Cgroups
from kernels.oci.idle_memory import IdleMemory
from tests.swap_file import swap_file

HELD_BYTES = 32 << 20
PARENT = f"sandcell-unified-{os.getpid()}"
PROGRAM = f"""
import hashlib, os, sys
if os.fork() == 0:
    while True:
        pass
held = os.urandom({HELD_BYTES})
for _ in sys.stdin:
    print(hashlib.sha256(held).hexdigest(), flush=True)
"""


class Counted(Cgroups):
    """One that asks the processes what they hold."""

    def held_bytes(self, sandbox_id: str) -> int:
        freezer = self.freezer(sandbox_id)
        assert freezer is not None
        return sum(_read_size(process, "RssAnon") for process in _processes(freezer.parent))


@pytest.fixture
def group() -> Iterator[tuple[Cgroups, Path]]:
    """Control groups that only know v2, and the sandbox `a` with a group inside it."""
    host = Cgroups("x")
    mount = host.hierarchies[0].mount if host.unified else host.unused_unified
    if mount is None:
        pytest.skip("this host has no cgroup v2 mounted")
    groups = Counted(PARENT, mounts=f"30 20 0:1 / {mount} rw - cgroup2 cgroup2 rw\n", own="0::/service\n")
    place = mount / PARENT / "a"
    (place / "inner").mkdir(parents=True)
    yield groups, place
    for each in (place / "inner", place, place.parent):
        each.rmdir()


def test_processes_of_a_real_group_stand_still_and_go_on(group: tuple[Cgroups, Path]) -> None:
    groups, place = group
    memory = IdleMemory(groups)
    with ExitStack() as stack:
        stack.enter_context(swap_file(128))
        program = stack.enter_context(
            subprocess.Popen([sys.executable, "-c", PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        )
        stack.callback(_kill, place)
        (place / "inner" / "cgroup.procs").write_text(str(program.pid))  # before it reads, so before it is asked
        before = _ask(program)
        children = Path(f"/proc/{program.pid}/task/{program.pid}/children").read_text().split()
        for child in children:  # forked before its parent was put there, or after
            (place / "inner" / "cgroup.procs").write_text(child)
        (place / "cgroup.procs").write_text(str(program.pid))

        moved = memory.page_out("a", threading.Event())
        assert moved.moved_bytes > HELD_BYTES // 2, moved
        assert "frozen 1" in (place / "cgroup.events").read_text()
        assert _read_size(program.pid, "VmSwap") > HELD_BYTES // 2
        assert program.stdin is not None
        assert program.stdout is not None
        program.stdin.write("\n")
        program.stdin.flush()
        assert select.select([program.stdout], [], [], 0.2)[0] == [], "nothing of it runs"
        memory.thaw("a")
        assert program.stdout.readline() == before, "it goes on with what it held"

        wanted = threading.Event()
        wanted.set()
        assert memory.page_out("a", wanted).moved_bytes == 0
        give_up = time.monotonic() + 60
        while "frozen 0" not in (place / "cgroup.events").read_text():  # said once a process of it has woken up
            assert time.monotonic() < give_up
            time.sleep(0.01)
        assert _ask(program) == before
        assert len(before) == 2 * hashlib.sha256().digest_size + 1


def _ask(program: subprocess.Popen[str]) -> str:
    assert program.stdin is not None
    assert program.stdout is not None
    program.stdin.write("\n")
    program.stdin.flush()
    return program.stdout.readline()


def _processes(place: Path) -> list[int]:
    return [int(line) for top, _, _ in os.walk(place) for line in Path(top, "cgroup.procs").read_text().split()]


def _read_size(process: int, name: str) -> int:
    rows = (line.split() for line in Path(f"/proc/{process}/status").read_text().splitlines())
    return next(int(row[1]) << 10 for row in rows if row[0] == f"{name}:")


def _kill(place: Path) -> None:
    """End all of the group, and wait until it is empty."""
    (place / "cgroup.kill").write_text("1")
    while "populated 1" in (place / "cgroup.events").read_text():
        pass
