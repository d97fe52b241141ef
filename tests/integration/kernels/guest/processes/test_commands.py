"""Shell commands: identity, output, deadlines, what they leave behind, tasks."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable

import pytest

from kernels.errors import GuestRefused, SandboxGone
from kernels.guest_client.client import CommandResult
from tests.integration.kernels.guest.conftest import Guests, RunningGuest, Test, until

Runner = Callable[[Test], None]


async def run(guest: RunningGuest, command: str, seconds: float = 20, output_bytes: int = 10_000) -> CommandResult:
    return await guest.client.run_command(command, timeout_seconds=seconds, output_bytes=output_bytes)


async def start(guest: RunningGuest, command: str, output_bytes: int = 9) -> CommandResult:
    return await guest.client.run_command(command, timeout_seconds=60, output_bytes=output_bytes, background=True)


def test_a_command_is_the_user_s_and_has_nothing_of_ours(with_guests: Runner) -> None:
    async def test(guests: Guests) -> None:
        guest = await guests.start()
        shown = await run(guest, "id -u; id -G; pwd; umask; cat /proc/$$/oom_score_adj; readlink /proc/self/fd/0; env")
        assert shown.stdout.split()[:6] == [str(guest.user)] * 2 + [str(guest.workspace), "0022", "500", "/dev/null"]
        assert "TEST_RUN" not in shown.stdout
        status = (await run(guest, "grep -E 'CapEff|NoNewPrivs|Groups' /proc/self/status")).stdout.split()
        assert status == ["Groups:", "CapEff:", "0" * 16, "NoNewPrivs:", "1"]
        assert (await run(guest, "ls /proc/self/fd | wc -l")).stdout.strip() == "4"  # 0, 1, 2 and that of ls
        assert (await run(guest, f"ls {guest.directory}/t/guest; cat < {guest.directory}/t/guest/x")).exit_code == 1

    with_guests(test)


@pytest.mark.parametrize(
    ("command", "exit_code", "stdout", "stderr"),
    [
        ("echo out; echo err >&2; exit 3", 3, "out\n", "err\n"),
        ("kill -SEGV $$", 139, "", ""),
        ("cat", 0, "", ""),
        ("nonsense-command 2>/dev/null", 127, "", ""),
        ("printf '\\377ok'", 0, "\ufffdok", ""),
    ],
)
def test_outcomes(with_guests: Runner, command: str, exit_code: int, stdout: str, stderr: str) -> None:
    async def test(guests: Guests) -> None:
        done = await run(await guests.start(), command)
        assert (done.status, done.exit_code, done.stdout, done.stderr) == ("done", exit_code, stdout, stderr)
        assert (done.timed_out, done.stdout_truncated) == (False, 0)

    with_guests(test)


def test_any_amount_of_output_is_cut_in_the_middle(with_guests: Runner) -> None:
    async def test(guests: Guests) -> None:
        done = await run(await guests.start(), "echo first; yes | head -c 100000000; echo last", output_bytes=100)
        assert done.stdout.startswith("first\ny\n")
        assert done.stdout.endswith("y\nlast\n")
        assert done.stdout_truncated == 100_000_000 + 11 - 100

    with_guests(test)


def test_deadlines_end_all_of_it(with_guests: Runner) -> None:
    async def test(guests: Guests) -> None:
        guest = await guests.start()
        late = await run(guest, "echo so far; setsid sleep 7654324 & (sleep 7654324 &); sleep 7654324", 1)
        assert (late.status, late.timed_out, late.exit_code, late.stdout) == ("timeout", True, 143, "so far\n")
        stubborn = await run(guest, "trap '' TERM; setsid sleep 7654324 & while :; do sleep 0.1; done", 1)
        assert (stubborn.timed_out, stubborn.exit_code) == (True, 137)
        assert stubborn.duration_seconds > 2
        assert not guest.alive("7654324")

    with_guests(test)


def test_what_a_command_leaves_behind_holds_nobody_up(with_guests: Runner) -> None:
    async def test(guests: Guests) -> None:
        guest = await guests.start()
        done = await run(guest, "setsid sleep 7654325 & echo started")
        assert (done.status, done.stdout) == ("done", "started\n")
        assert guest.alive("7654325")

    with_guests(test)


def test_a_command_nobody_waits_for_is_stopped(with_guests: Runner) -> None:
    async def test(guests: Guests) -> None:
        guest = await guests.start()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.3):
                await run(guest, "sleep 7654326")
        await until(lambda: asyncio.to_thread(lambda: not guest.alive("7654326")))

    with_guests(test)


def test_streams_that_are_merged_are_in_the_order_they_were_written(with_guests: Runner) -> None:
    async def test(guests: Guests) -> None:
        client = (await guests.start()).client
        command = "for n in 1 2 3; do echo out$n; echo err$n >&2; done; exit 4"
        done = await client.run_command(command, timeout_seconds=120, output_bytes=1000, merge_output=True)
        assert (done.stdout, done.stderr, done.exit_code) == ("out1\nerr1\nout2\nerr2\nout3\nerr3\n", "", 4)
        cut = await client.run_command(
            "printf %050d 0; printf %050d 1 >&2", timeout_seconds=120, output_bytes=20, merge_output=True
        )
        assert (cut.stdout_truncated, cut.stderr_truncated, cut.stdout[-1]) == (80, 0, "1")

    with_guests(test)


def test_tasks_are_started_polled_and_stopped(with_guests: Runner) -> None:
    async def test(guests: Guests) -> None:
        guest = await guests.start()
        client = guest.client
        task = await start(guest, "echo a; read x < /dev/zero")
        assert (task.status, task.exit_code) == ("running", None)
        assert (uuid.UUID(task.id).version, str(uuid.UUID(task.id))) == (4, task.id)

        async def printed() -> bool:
            return (await client.task(task.id)).stdout == "a\n"

        await until(printed)
        stopped = await client.stop_task(task.id)
        assert (stopped.status, stopped.timed_out, stopped.stdout) == ("stopped", False, "a\n")
        assert await client.stop_task(task.id) == stopped == await client.task(task.id)
        with pytest.raises(GuestRefused) as refused:
            await client.task(str(uuid.uuid4()))
        assert (refused.value.status, refused.value.code) == (404, "not_found")

    with_guests(test)


def test_tasks_are_bounded_in_number_and_in_what_they_keep(with_guests: Runner) -> None:
    async def test(guests: Guests) -> None:
        guest = await guests.start()
        client = guest.client
        tasks = [await start(guest, "sleep 60") for _ in range(16)]
        with pytest.raises(GuestRefused) as refused:
            await client.run_command("true", timeout_seconds=1, output_bytes=9)
        assert (refused.value.status, refused.value.code) == (429, "too_many_commands")
        await asyncio.gather(*(client.stop_task(task.id) for task in tasks))
        big = [await start(guest, "head -c 2000000 /dev/zero", 2_000_000) for _ in range(9)]

        async def ended(task: CommandResult) -> bool:
            try:
                return (await client.task(task.id)).status == "done"
            except GuestRefused:  # forgotten: together they are more than what is kept
                return True

        async def all_ended() -> bool:
            return all([await ended(each) for each in big])

        await until(all_ended)
        with pytest.raises(GuestRefused):
            await client.task(tasks[0].id)

    with_guests(test)


@pytest.mark.parametrize(
    ("command", "timeout_seconds", "output_bytes"),
    [
        ("a\0b", 1, 1),
        ("\ud800", 1, 1),
        ("x" * 200_000, 1, 1),
        ("true", 0, 1),
        ("true", 1e9, 1),
        ("true", 1, -1),
        ("true", 1, 10**9),
    ],
)
def test_what_makes_no_sense_is_refused(
    with_guests: Runner, command: str, timeout_seconds: float, output_bytes: int
) -> None:
    async def test(guests: Guests) -> None:
        with pytest.raises(GuestRefused) as refused:
            await run(await guests.start(), command, timeout_seconds, output_bytes)
        assert (refused.value.status, refused.value.code) == (400, "invalid_request")

    with_guests(test)


def test_a_guest_that_dies_fails_those_who_wait(with_guests: Runner) -> None:
    async def test(guests: Guests) -> None:
        guest = await guests.start()
        waiting = asyncio.create_task(run(guest, "sleep 5"))
        await asyncio.sleep(0.2)
        guest.process.kill()
        with pytest.raises(SandboxGone):
            await waiting

    with_guests(test)


def test_the_end_of_a_task_is_waited_for(with_guests: Runner) -> None:
    async def test(guests: Guests) -> None:
        guest = await guests.start()
        task = await start(guest, "until [ -e go ]; do sleep 0.05; done; echo over; exit 3")
        waiting = asyncio.create_task(guest.client.await_end(task.id, timeout_seconds=60))
        await run(guest, "sleep 0.2")
        assert not waiting.done()
        await run(guest, "touch go")
        ended = await waiting
        assert (ended.id, ended.status, ended.exit_code, ended.stdout) == (task.id, "done", 3, "over\n")
        assert await guest.client.await_end(task.id, timeout_seconds=60) == ended
        with pytest.raises(GuestRefused) as refused:
            await guest.client.await_end(str(uuid.uuid4()), timeout_seconds=60)
        assert refused.value.status == 410

    with_guests(test)
