"""The guest as PID 1 of a real sandbox, whatever the runtime: orphans, signals from user code, and its own end."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from kernels.errors import KernelsError
from tests.integration.kernels.oci.conftest import Sandboxes, Test

InSandboxes = Callable[[Test], None]

STATES = """
import glob
for path in glob.glob('/proc/[0-9]*/stat'):
    try:
        fields = open(path).read().rpartition(') ')[2].split()
    except OSError:
        continue
    print(fields[0], fields[1])
"""


def test_orphans_are_reaped(in_sandboxes: InSandboxes) -> None:
    async def test(sandboxes: Sandboxes) -> None:
        info = await sandboxes.create()
        await sandboxes.run(info, "for i in $(seq 30); do (setsid true &); done")
        for _ in range(600):
            left = [line.split() for line in (await sandboxes.python(info, STATES)).splitlines()]
            if not [state for state, parent in left if state == "Z" and parent == "1"]:
                break
            await asyncio.sleep(0.1)
        else:
            pytest.fail(f"dead children of PID 1 stay: {left}")

    in_sandboxes(test)


def test_the_user_cannot_end_stop_or_trace_pid_1(in_sandboxes: InSandboxes) -> None:
    tries = "for signal in KILL TERM STOP INT HUP SEGV; do kill -$signal 1; done; test -d /proc/1 && echo there"

    async def test(sandboxes: Sandboxes) -> None:
        info = await sandboxes.create()
        done = await sandboxes.run(info, tries)
        assert done.stdout == "there\n"
        assert done.stderr.count("not permitted") == 6
        assert (await sandboxes.run(info, "echo alive")).stdout == "alive\n"

    in_sandboxes(test)


def test_what_user_code_leaves_running_ends_with_the_sandbox(in_sandboxes: InSandboxes) -> None:
    """Also what ignores every signal that can be ignored, in a session of its own."""
    stubborn = "trap '' TERM INT HUP; setsid sleep 7654334 & setsid sleep 7654334 & exec sleep 0.1"

    async def test(sandboxes: Sandboxes) -> None:
        info = await sandboxes.create()
        await sandboxes.run(info, stubborn)
        processes = _processes_of(info.sandbox_id)
        assert processes
        await sandboxes.runtime.destroy(info.sandbox_id)
        assert not {one for one in processes if info.sandbox_id in _groups(one)}

    in_sandboxes(test)


def test_a_guest_that_is_told_to_end_takes_the_sandbox_with_it(in_sandboxes: InSandboxes) -> None:
    async def test(sandboxes: Sandboxes) -> None:
        info = await sandboxes.create()
        await sandboxes.run(info, "true")
        process = sandboxes.runtime.places.of(info.sandbox_id).first_process()
        assert process is not None
        os.kill(process, signal.SIGTERM)
        async with asyncio.timeout(120):
            while await sandboxes.runtime.running(info.sandbox_id):
                await asyncio.sleep(0.05)
        with pytest.raises(KernelsError):
            await sandboxes.run(info, "true", ready_seconds=2)

    in_sandboxes(test)


def _processes_of(sandbox_id: str) -> set[int]:
    found = (int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit())
    return {one for one in found if sandbox_id in _groups(one)}


def _groups(process: int) -> str:
    """The control groups of a process that lives."""
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(") ")[2][0]
        return "" if state in "ZX" else Path(f"/proc/{process}/cgroup").read_text()
    except OSError:
        return ""
