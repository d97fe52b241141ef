"""The guest as PID 1 of a pid namespace: orphans, fork bombs, and its own end."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest

from kernels.errors import GuestRefused

from .conftest import Guests, Test, until

Runner = Callable[[Test], None]

BOMB = """#!/bin/bash
case "$*" in
  *g1.json) until [ -e "$0.begin" ]; do sleep 0.1; done; trap '' TERM INT; bomb() { while :; do bomb & done; }; bomb;;
  *) exec sleep 7654331;;
esac
"""


@pytest.fixture
def bomb(tmp_path: Path) -> Iterator[str]:
    """A "Python" whose first kernel is a fork bomb, once there is a file `.begin` beside it; the second is quiet."""
    path = Path("/tmp") / f"{tmp_path.name}-{os.getpid()}-bomb"
    path.write_text(BOMB)
    path.chmod(0o755)
    yield str(path)
    path.unlink()
    Path(f"{path}.begin").unlink()


@pytest.fixture
def few_processes() -> Iterator[Path]:
    """A cgroup that holds at most 60 processes."""
    parents = [Path("/sys/fs/cgroup/pids"), Path("/sys/fs/cgroup")]
    group = next(path for path in parents if (path / "cgroup.procs").exists()) / f"guest-test-{os.getpid()}"
    group.mkdir()
    (group / "pids.max").write_text("60")
    yield group
    group.rmdir()


def test_orphans_are_reaped(with_guests: Runner) -> None:
    async def test(guests: Guests) -> None:
        guest = await guests.start(pid_1=True)
        command = "for i in $(seq 50); do (setsid true &); done"
        await guest.client.run_command(command, timeout_seconds=120, output_bytes=10)

        async def childless() -> bool:
            return not Path(f"/proc/{guest.pid}/task/{guest.pid}/children").read_text().split()

        await until(childless)

    with_guests(test)


def test_the_user_cannot_end_pid_1(with_guests: Runner) -> None:
    async def test(guests: Guests) -> None:
        guest = await guests.start(pid_1=True)
        done = await guest.client.run_command(
            "kill -9 1; kill -TERM 1; ps -p 1 -o pid=", timeout_seconds=120, output_bytes=999
        )
        assert done.stdout.strip() == "1"
        assert done.stderr.count("not permitted") == 2

    with_guests(test)


def test_a_fork_bomb_is_answered_clearly_and_a_restart_ends_it(
    with_guests: Runner, bomb: str, few_processes: Path
) -> None:
    async def test(guests: Guests) -> None:
        guest = await guests.start(python=bomb, pid_1=True, cgroup=few_processes)
        Path(f"{bomb}.begin").touch()

        async def full() -> bool:
            try:
                await guest.client.run_command("true", timeout_seconds=120, output_bytes=9)
            except GuestRefused as refused:
                return refused.code == "no_processes"
            return False

        await until(full)
        await guest.client.interrupt_kernel()
        await guest.client.write_file("still", _content(b"works"))
        assert (await guest.client.start_kernel(2)).generation == 2

        async def quiet() -> bool:  # the new kernel is a shell first
            return bool(guest.alive("7654331"))

        await until(quiet)
        done = await guest.client.run_command("echo calm", timeout_seconds=120, output_bytes=9)
        assert done.stdout == "calm\n"

    with_guests(test)


def test_sigterm_ends_everything(with_guests: Runner) -> None:
    async def test(guests: Guests) -> None:
        guest = await guests.start(pid_1=True)
        command = "trap '' TERM; setsid sleep 7654332 & exec sleep 7654332"
        await guest.client.run_command(command, timeout_seconds=60, output_bytes=9, background=True)
        os.kill(guest.pid, signal.SIGTERM)
        await asyncio.to_thread(guest.process.wait, 10)
        await guest.told(lambda one: one == "gone")
        assert not guest.alive("7654332")

    with_guests(test)


async def _content(data: bytes) -> AsyncIterator[bytes]:
    yield data
