"""Sandboxes come and go whole: whatever fails or is killed, destroy leaves nothing."""

from __future__ import annotations

import asyncio
import dataclasses
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec import structs

from kernels.environment import Environment
from kernels.errors import SandboxFailed, SandboxGone
from kernels.oci import idle_memory
from kernels.oci.runtime import OciRuntime
from kernels.sandbox import RuntimeSettings, SandboxSpec
from tests import control_groups
from tests.integration.kernels.oci.conftest import Sandboxes, Test

WHATEVER_RUNTIME = pytest.mark.parametrize("runtime_name", ["runc"])
"""Of tests of what happens before a runtime is called, or around it."""


def traces(settings: RuntimeSettings, sandbox_id: str) -> list[str]:
    """Everything on the host that carries the sandbox's id, and claims of uid ranges."""
    mounts = [line for line in Path("/proc/self/mountinfo").read_text().splitlines() if sandbox_id in line]
    groups = [str(path) for path in control_groups.find(sandbox_id)]
    files = [
        str(p) for top in (settings.data_directory, settings.run_directory) for p in top.glob(f"**/*{sandbox_id}*")
    ]
    claims = [str(path) for path in (settings.run_directory / "uids").glob("[0-9]*") if sandbox_id in path.read_text()]
    return mounts + groups + files + claims


def find_processes(sandbox_id: str) -> list[str]:
    return [word for group in control_groups.find(sandbox_id) for word in (group / "cgroup.procs").read_text().split()]


def test_destroy_leaves_nothing_and_can_be_repeated(in_sandboxes: Callable[[Test], None]) -> None:
    async def test(sandboxes: Sandboxes) -> None:
        info = await sandboxes.create()
        runtime = sandboxes.runtime
        assert await runtime.running(info.sandbox_id)
        assert [one.sandbox_id for one in await runtime.list()] == [info.sandbox_id]
        assert traces(runtime.settings, info.sandbox_id)
        await asyncio.gather(*(runtime.destroy(info.sandbox_id) for _ in range(3)))
        assert traces(runtime.settings, info.sandbox_id) == []
        assert not await runtime.running(info.sandbox_id)
        await runtime.destroy(info.sandbox_id)
        with pytest.raises(SandboxGone):
            await runtime.usage(info.sandbox_id)

    in_sandboxes(test)


def test_a_killed_sandbox_is_noticed_and_removed(in_sandboxes: Callable[[Test], None]) -> None:
    async def test(sandboxes: Sandboxes) -> None:
        info = await sandboxes.create()
        process = sandboxes.runtime.places.of(info.sandbox_id).first_process()
        assert process is not None
        os.kill(process, signal.SIGKILL)
        async with asyncio.timeout(120):
            while await sandboxes.runtime.running(info.sandbox_id):
                await asyncio.sleep(0.05)
        await sandboxes.runtime.destroy(info.sandbox_id)
        assert traces(sandboxes.runtime.settings, info.sandbox_id) == []

    in_sandboxes(test)


def test_what_is_killed_runs_no_more_and_keeps_its_files_until_it_is_destroyed(
    in_sandboxes: Callable[[Test], None],
) -> None:
    async def test(sandboxes: Sandboxes) -> None:
        runtime, info = sandboxes.runtime, await sandboxes.create()
        loop = "while :; do echo x >> /workspace/ticks; done"
        await sandboxes.run(info, f"setsid sh -c '{loop}' >/dev/null 2>&1 & until [ -s /workspace/ticks ]; do :; done")
        used = await runtime.kill(info.sandbox_id)
        assert used is not None
        assert used.memory_bytes > 1_000_000
        assert used.pids > 1, "as of before its end"
        async with asyncio.timeout(120):
            while await runtime.running(info.sandbox_id) or find_processes(info.sandbox_id):
                await asyncio.sleep(0.01)
        ticks = Path(info.workspace_directory) / "ticks"
        size = ticks.stat().st_size
        await runtime.kill(info.sandbox_id)
        await asyncio.sleep(0.1)
        assert ticks.stat().st_size == size > 0
        assert [one.sandbox_id for one in await runtime.list()] == [info.sandbox_id]
        await runtime.destroy(info.sandbox_id)
        assert await runtime.kill(info.sandbox_id) is None
        assert traces(runtime.settings, info.sandbox_id) == []

    in_sandboxes(test)


@WHATEVER_RUNTIME
def test_hundreds_of_processes_end_also_where_the_sandbox_hardly_gets_the_processor(
    in_sandboxes: Callable[[Test], None],
) -> None:
    """They need it to end, for longer than a runtime waits for them."""

    async def test(sandboxes: Sandboxes) -> None:
        runtime, info = sandboxes.runtime, await sandboxes.create()
        fork = "import os, time\nfor _ in range(450):\n    if os.fork() == 0: time.sleep(600)\nos._exit(0)"
        await sandboxes.run(info, f"setsid python3 -c '{fork}' >/dev/null 2>&1; true")
        runtime.cgroups.end_burst(info.sandbox_id)
        for group in control_groups.find(info.sandbox_id):
            for name in ("cpu.cfs_quota_us", "cpu.max"):
                if (group / name).exists():
                    (group / name).write_text("1000")  # the least that there is, in 100,000 microseconds
        await runtime.destroy(info.sandbox_id)
        assert traces(runtime.settings, info.sandbox_id) == []

    in_sandboxes(test)


def test_what_is_stopped_is_killed_without_running_again(in_sandboxes: Callable[[Test], None]) -> None:
    async def test(sandboxes: Sandboxes) -> None:
        runtime, info = sandboxes.runtime, await sandboxes.create()
        loop = "while :; do echo x >> /workspace/ticks; done"
        await sandboxes.run(info, f"setsid sh -c '{loop}' >/dev/null 2>&1 & until [ -s /workspace/ticks ]; do :; done")
        freezer = runtime.cgroups.freezer(info.sandbox_id)
        assert freezer is not None
        idle_memory._set_frozen(freezer, frozen=True)
        ticks = Path(info.workspace_directory) / "ticks"
        size = ticks.stat().st_size
        await runtime.kill(info.sandbox_id)
        async with asyncio.timeout(120):
            while await runtime.running(info.sandbox_id):
                await asyncio.sleep(0.01)
        # The write that it had been stopped in ends; the loop does not go on.
        assert ticks.stat().st_size <= size + 2
        await runtime.destroy(info.sandbox_id)
        assert traces(runtime.settings, info.sandbox_id) == []

    in_sandboxes(test)


def test_a_later_process_finds_and_removes_what_an_earlier_one_left(in_sandboxes: Callable[[Test], None]) -> None:
    async def test(sandboxes: Sandboxes) -> None:
        info = await sandboxes.create()
        later = OciRuntime(sandboxes.runtime.settings)
        assert await later.list() == (info,)
        assert await later.running(info.sandbox_id)
        await later.destroy(info.sandbox_id)
        assert traces(later.settings, info.sandbox_id) == []

    in_sandboxes(test)


def test_a_start_that_fails_takes_everything_back(in_sandboxes: Callable[[Test], None]) -> None:
    async def test(sandboxes: Sandboxes) -> None:
        sandbox_id = str(uuid.uuid4())
        broken = dataclasses.replace(sandboxes.environment, root="/nonexistent/root")
        with pytest.raises(SandboxFailed, match="run failed"):
            await sandboxes.runtime.create(SandboxSpec(sandbox_id, broken))
        assert traces(sandboxes.runtime.settings, sandbox_id) == []
        assert sandboxes.runtime._locks == {}

    in_sandboxes(test)


def test_a_start_that_nobody_waits_for_any_more_takes_everything_back(in_sandboxes: Callable[[Test], None]) -> None:
    async def test(sandboxes: Sandboxes) -> None:
        runtime, sandbox_id = sandboxes.runtime, str(uuid.uuid4())
        making = asyncio.create_task(runtime.create(SandboxSpec(sandbox_id, sandboxes.environment)))
        while not runtime.places.of(sandbox_id).journal.exists():
            await asyncio.sleep(0.001)
        making.cancel()
        with pytest.raises(asyncio.CancelledError):
            await making
        await asyncio.sleep(1)  # for what would come late
        async with asyncio.timeout(120):
            while traces(runtime.settings, sandbox_id):
                await asyncio.sleep(0.05)

    in_sandboxes(test)


@WHATEVER_RUNTIME
def test_a_destroy_that_waited_for_another_does_not_meet_a_new_start(in_sandboxes: Callable[[Test], None]) -> None:
    """A session starts again under its old id, while destroys of its old sandbox still stand in line."""

    async def test(sandboxes: Sandboxes) -> None:
        runtime, info = sandboxes.runtime, await sandboxes.create()
        inside, most = 0, 0

        def alone() -> None:
            nonlocal inside, most
            with runtime._take_turn(info.sandbox_id):
                inside += 1
                most = max(most, inside)
                time.sleep(0.01)
                inside -= 1

        calls = [runtime.destroy(info.sandbox_id) for _ in range(3)]
        await asyncio.gather(*(asyncio.to_thread(alone) for _ in range(6)), *calls)
        assert most == 1
        assert runtime._locks == {}

    in_sandboxes(test)


@pytest.mark.parametrize("left", ["directory", "journal", "transport"])
def test_a_start_cut_off_half_way_is_cleaned_by_destroy(in_sandboxes: Callable[[Test], None], left: str) -> None:
    """What a process killed in the middle of a create leaves, stage by stage."""

    async def test(sandboxes: Sandboxes) -> None:
        sandbox_id = str(uuid.uuid4())
        places = sandboxes.runtime.places.of(sandbox_id)
        sandboxes.runtime.places.prepare()
        places.home.mkdir()
        if left != "directory":
            places.write_journal(sandboxes.runtime._uids.claim(places.home), sandboxes.runtime.settings.runtime)
        if left == "transport":
            places.transport.mkdir()
        assert [one.sandbox_id for one in await sandboxes.runtime.list()] == [sandbox_id]
        await sandboxes.runtime.destroy(sandbox_id)
        assert traces(sandboxes.runtime.settings, sandbox_id) == []

    in_sandboxes(test)


@WHATEVER_RUNTIME
def test_an_id_is_never_used_twice_at_once(in_sandboxes: Callable[[Test], None]) -> None:
    async def test(sandboxes: Sandboxes) -> None:
        info = await sandboxes.create()
        with pytest.raises(SandboxFailed, match="exists already"):
            await sandboxes.runtime.create(SandboxSpec(info.sandbox_id, sandboxes.environment))
        assert await sandboxes.runtime.running(info.sandbox_id)

    in_sandboxes(test)


@WHATEVER_RUNTIME
@pytest.mark.parametrize("bad", ["../escape", "x", "", "a" * 36])
def test_an_id_that_is_no_uuid_is_refused(in_sandboxes: Callable[[Test], None], bad: str) -> None:
    async def test(sandboxes: Sandboxes) -> None:
        with pytest.raises(SandboxFailed, match="UUID"):
            await sandboxes.runtime.create(SandboxSpec(bad, sandboxes.environment))

    in_sandboxes(test)


@WHATEVER_RUNTIME
def test_a_full_host_disk_refuses_the_start(settings: RuntimeSettings, environment: Environment) -> None:
    greedy = structs.replace(settings, disk_reserve_bytes=1 << 60)

    async def test() -> None:
        runtime = OciRuntime(greedy)
        try:
            with pytest.raises(SandboxFailed, match="disk_reserve_bytes"):
                await runtime.create(SandboxSpec(str(uuid.uuid4()), environment))
            assert await runtime.list() == ()
            assert [one.name for one in await runtime.check() if not one.ok] == ["disk"]
        finally:
            await runtime.aclose()

    asyncio.run(test())


@WHATEVER_RUNTIME
def test_a_run_directory_that_cannot_be_one_fails_the_start(
    settings: RuntimeSettings, environment: Environment, short_directory: Path
) -> None:
    (short_directory / "file").touch()

    async def test() -> None:
        runtime = OciRuntime(structs.replace(settings, run_directory=short_directory / "file"))
        try:
            with pytest.raises(SandboxFailed, match="cannot be made"):
                await runtime.create(SandboxSpec(str(uuid.uuid4()), environment))
        finally:
            await runtime.aclose()

    asyncio.run(test())


def test_every_check_of_the_host_holds_here(in_sandboxes: Callable[[Test], None]) -> None:
    async def test(sandboxes: Sandboxes) -> None:
        findings = await sandboxes.runtime.check()
        assert {one.name: one.detail for one in findings if not one.ok} == {}
        assert len(findings) >= 10

    in_sandboxes(test)


def test_an_interrupt_at_the_terminal_does_not_reach_what_the_runtime_calls(tmp_path: Path) -> None:
    """A stand-in for the runtime's program says which session it is in: not the caller's."""
    said = subprocess.run(
        [sys.executable, "-c", SESSION_OF_A_CALL, str(tmp_path / "called")],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    ).stdout.split()
    assert said[0] != said[1]


SESSION_OF_A_CALL = """
import dataclasses, os, pathlib, sys
from kernels.oci import command
directory = pathlib.Path(sys.argv[1]); directory.mkdir(parents=True)
program = directory / "runtime"
program.write_text("#!/bin/sh\\ncut -d ' ' -f 6 /proc/$$/stat > " + str(directory / "sid"))
program.chmod(0o755)
command.RUNC = dataclasses.replace(command.RUNC, program=str(program))
command.OciCommand("runc", directory).delete("x")
print(os.getsid(0), (directory / "sid").read_text().strip())
"""
