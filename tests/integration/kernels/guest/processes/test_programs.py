"""Programs that are followed: output as it comes, input, terminals, signals, deadlines, and their bounds."""

from __future__ import annotations

import asyncio
from base64 import b64encode
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing

import pytest

from kernels.errors import GuestRefused
from kernels.guest.processes import programs
from kernels.guest_client.programs import ProgramEnd, ProgramEvent, ProgramOutput, ProgramRequest, ProgramStarted
from tests.integration.kernels.guest.conftest import Guests, RunningGuest, Test

Runner = Callable[[Test], None]


def request(
    line: str, *, takes_input: bool = False, size: tuple[int, int] | None = None, **more: object
) -> ProgramRequest:
    asked = {"directory": "/tmp", "timeout_seconds": 60.0, **more}
    return ProgramRequest(["/bin/sh", "-c", line], takes_input=takes_input, size=size, **asked)  # type: ignore[arg-type]


async def started(events: AsyncGenerator[ProgramEvent]) -> int:
    first = await anext(events)
    assert isinstance(first, ProgramStarted)
    return first.pid


async def text_until(events: AsyncGenerator[ProgramEvent], wanted: bytes) -> bytes:
    seen = b""
    while wanted not in seen:
        event = await anext(events)
        assert isinstance(event, ProgramOutput), event
        seen += event.data
    return seen


async def rest(events: AsyncGenerator[ProgramEvent]) -> tuple[dict[str, bytes], ProgramEnd]:
    seen: dict[str, bytes] = {}
    async with aclosing(events):
        async for event in events:
            if isinstance(event, ProgramOutput):
                seen[event.stream] = seen.get(event.stream, b"") + event.data
            else:
                assert isinstance(event, ProgramEnd)
                return seen, event
    raise AssertionError("the stream ended before the program")


def b64(data: bytes) -> str:
    return b64encode(data).decode()


def test_output_comes_in_its_streams_and_then_the_end(with_guests: Runner) -> None:
    async def test(guests: Guests) -> None:
        guest = await guests.start()
        line = 'echo "$A $PWD $(id -u)"; echo bad >&2; exit 3'
        async with aclosing(await guest.client.start_program(request(line, variables={"A": "1"}))) as events:
            await started(events)
            seen, end = await rest(events)
        assert seen == {"stdout": f"1 /tmp {guest.user}\n".encode(), "stderr": b"bad\n"}
        assert end == ProgramEnd(3, None, timed_out=False)
        assert [each.ended for each in await guest.client.list_programs()] == [True]

    with_guests(test)


def test_input_signals_and_a_second_follower(with_guests: Runner) -> None:
    async def test(guests: Guests) -> None:
        guest = await guests.start()
        client = guest.client
        first = await client.start_program(request("cat; echo ended", takes_input=True, tag="mine"))
        pid = await started(first)
        assert [(each.pid, each.tag, each.directory) for each in await client.list_programs()] == [
            (pid, "mine", "/tmp")
        ]
        await client.tell_program(pid, "input", data=b64(b"one\n"))
        await text_until(first, b"one\n")
        second = await client.follow_program(pid)
        await client.tell_program(pid, "input", data=b64(b"two\n"))
        await text_until(second, b"two\n")
        await first.aclose()  # hanging up ends nothing
        await client.tell_program(pid, "close-input")
        seen, end = await rest(second)
        assert (seen, end.exit_code) == ({"stdout": b"ended\n"}, 0)
        with pytest.raises(GuestRefused, match="has ended"):
            await client.tell_program(pid, "signal", signal="SIGKILL")
        for line, name in (("sleep 100", "SIGKILL"), ("sleep 100", "SIGTERM")):
            async with aclosing(await client.start_program(request(line))) as events:
                await client.tell_program(await started(events), "signal", signal=name)
                assert (await rest(events))[1] == ProgramEnd(None, name, timed_out=False)

    with_guests(test)


def test_who_comes_in_the_place_of_one_that_was_killed_is_told_again_what_was_told_last(with_guests: Runner) -> None:
    async def test(guests: Guests) -> None:
        guest = await guests.start()
        client = guest.client
        line = "echo one; read x; head -c 300000 /dev/zero; echo end"
        first = await client.start_program(request(line, takes_input=True))
        pid = await started(first)
        await text_until(first, b"one\n")
        await first.aclose()
        second = await client.follow_program(pid, again=True)
        assert await text_until(second, b"one\n") == b"one\n"
        await client.tell_program(pid, "close-input")
        seen, end = await rest(second)
        assert len(seen["stdout"]) == 300_004
        third = await client.follow_program(pid, again=True)
        again, same = await rest(third)
        assert same == end, "the end is told again, too"
        assert seen["stdout"].endswith(again["stdout"])
        assert programs.MAX_TOLD_BYTES - programs.READ_BYTES <= len(again["stdout"]) <= programs.MAX_TOLD_BYTES
        for _ in range(programs.MAX_READ):
            async with aclosing(await client.start_program(request("true"))) as events:
                await started(events)
                await rest(events)
        assert pid not in {each.pid for each in await client.list_programs()}

    with_guests(test)


def test_a_terminal(with_guests: Runner) -> None:
    async def test(guests: Guests) -> None:
        guest = await guests.start()
        async with aclosing(await guest.client.start_program(request("exec sh -i", size=(91, 33)))) as events:
            pid = await started(events)
            await guest.client.tell_program(pid, "input", data=b64(b"stty size; tty\n"))
            assert b"/dev/pts/" in await text_until(events, b"33 91\r\n/dev/pts/")
            await guest.client.tell_program(pid, "size", size=[70, 20])
            await guest.client.tell_program(pid, "input", data=b64(b"stty size\n"))
            await text_until(events, b"20 70\r\n")
            await guest.client.tell_program(pid, "input", data=b64(b"exit 4\n"))
            assert (await rest(events))[1].exit_code == 4

    with_guests(test)


def test_a_deadline_ends_all_of_it(with_guests: Runner) -> None:
    async def test(guests: Guests) -> None:
        guest = await guests.start()
        line = "sleep 4242 & echo there; wait"
        async with aclosing(await guest.client.start_program(request(line, timeout_seconds=0.5))) as events:
            await started(events)
            seen, end = await rest(events)
        assert seen["stdout"] == b"there\n"
        assert (end.signal, end.timed_out) == ("SIGTERM", True)
        assert guest.alive("4242") == []

    with_guests(test)


def test_what_is_left_behind_holds_up_no_end(with_guests: Runner) -> None:
    async def test(guests: Guests) -> None:
        guest = await guests.start()
        async with aclosing(
            await guest.client.start_program(request("(while :; do echo x; sleep 0.02; done) & echo $! >&2"))
        ) as events:
            await started(events)
            seen, end = await rest(events)
        assert (end.exit_code, seen["stderr"].strip().isdigit()) == (0, True)

    with_guests(test)


def test_a_follower_that_does_not_read_makes_the_program_wait(with_guests: Runner) -> None:
    async def test(guests: Guests) -> None:
        guest = await guests.start()
        done = guest.directory / "w/done"
        line = f"head -c 4000000 /dev/zero; touch {done}"
        events = await guest.client.start_program(request(line))
        await started(events)
        await asyncio.sleep(0.3)
        assert not done.exists()
        seen, end = await rest(events)
        assert (len(seen["stdout"]), end.exit_code, done.exists()) == (4_000_000, 0, True)

    with_guests(test)


def test_without_a_follower_the_program_goes_on_and_the_last_output_is_kept(with_guests: Runner) -> None:
    async def test(guests: Guests) -> None:
        guest = await guests.start()
        line = "read x; head -c 3000000 /dev/zero | tr '\\0' 'a'; echo; echo end; read x"
        events = await guest.client.start_program(request(line, takes_input=True))
        pid = await started(events)
        await events.aclose()
        await guest.client.tell_program(pid, "input", data=b64(b"go\n"))
        again = await guest.client.follow_program(pid)
        seen = await text_until(again, b"end\n")
        assert len(seen) < 3_000_000 + 100
        await guest.client.tell_program(pid, "close-input")
        await rest(again)

    with_guests(test)


def test_bounds(with_guests: Runner) -> None:
    async def test(guests: Guests) -> None:
        guest = await guests.start()
        client = guest.client
        running = [await client.start_program(request("sleep 100")) for _ in range(programs.MAX_RUNNING)]
        with pytest.raises(GuestRefused, match="programs are running already"):
            await client.start_program(request("true"))
        pids = [await started(each) for each in running]
        with pytest.raises(GuestRefused, match="takes no input"):
            await client.tell_program(pids[0], "input", data=b64(b"x"))
        with pytest.raises(GuestRefused, match="no terminal"):
            await client.tell_program(pids[0], "size", size=[10, 10])
        for pid, each in zip(pids, running, strict=True):
            await client.tell_program(pid, "signal", signal="SIGKILL")
            await rest(each)
        deaf = await client.start_program(request("sleep 100", takes_input=True))
        pid = await started(deaf)
        refused = []
        for _ in range(programs.MAX_INPUT_BYTES // 500_000 + 2):
            try:
                await client.tell_program(pid, "input", data=b64(bytes(500_000)))
            except GuestRefused as error:
                refused.append(str(error))
        assert refused
        assert "has not read" in refused[-1]
        await client.tell_program(pid, "signal", signal="SIGKILL")
        await rest(deaf)

    with_guests(test)


@pytest.mark.parametrize(
    ("asked", "why"),
    [
        (ProgramRequest(["/no/such"], "/tmp"), "No such file"),
        (ProgramRequest(["/bin/true"], "/no/such"), "No such file"),
        (ProgramRequest(["/bin/true"], "/tmp", variables={"A": "x" * 200_000}), "at most"),
        (ProgramRequest(["/bin/true"], "/tmp", timeout_seconds=1e9), "timeout_seconds"),
        (ProgramRequest(["/bin/true"], "/tmp", size=(0, 3)), "columns and rows"),
        (ProgramRequest(["no-such-program"], "/tmp"), "No such file"),
    ],
)
def test_what_cannot_be_started_says_why(with_guests: Runner, asked: ProgramRequest, why: str) -> None:
    async def test(guests: Guests) -> None:
        guest: RunningGuest = await guests.start()
        with pytest.raises(GuestRefused, match=why):
            await guest.client.start_program(asked)

    with_guests(test)


def test_files_anywhere_as_the_user(with_guests: Runner) -> None:
    async def test(guests: Guests) -> None:
        guest = await guests.start()
        client, place = guest.client, str(guest.workspace)[1:]

        async def content() -> AsyncGenerator[bytes]:
            yield b"hello"

        written = await client.write_file(f"{place}/a/b.txt", content(), everywhere=True)
        assert written.path == f"{place}/a/b.txt"
        found = await client.stat_file(f"{place}/a/b.txt", everywhere=True)
        assert (found.kind, found.size, found.mode, found.uid) == ("file", 5, 0o644, guest.user)
        assert (await client.stat_file("a/b.txt")).size == 5
        made = await client.make_directory(f"{place}/c/d")
        assert made.kind == "directory"
        with pytest.raises(GuestRefused) as again:
            await client.make_directory(f"{place}/c/d")
        assert again.value.code == "exists"
        assert (await client.move_file(f"{place}/a/b.txt", f"{place}/c/d/e")).size == 5
        below = await client.list_files(f"{place}/c", recursive=True, depth=1, limit=9, everywhere=True)
        assert [each.path for each in below] == [f"{place}/c/d"]
        await client.remove_file(f"{place}/c", recursive=True, everywhere=True)
        for closed in ("proc/1/environ", "sys", "dev/null", "run/x"):
            with pytest.raises(GuestRefused) as refused:
                await client.stat_file(closed, everywhere=True)
            assert refused.value.code == "permission_denied"
        for theirs in (f"{str(guest.directory)[1:]}/t/guest/x", "root/.profile"):
            with pytest.raises(GuestRefused):
                await client.write_file(theirs, content(), everywhere=True)

    with_guests(test)
