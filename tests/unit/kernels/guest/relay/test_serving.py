"""When frames go out: what code publishes goes with its end, everything else at once, and nothing is missing."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Awaitable, Callable

import pytest

from kernels.guest.relay import frames, relay
from kernels.guest.relay.frames import FIRST, LAST, FrameDecoder
from kernels.guest.relay.kernels import open_unnamed
from kernels.guest.relay.relay import Relay
from kernels.guest.relay.runs import Runs
from kernels.guest.relay.serving import MOST_HELD_BYTES, Connection
from kernels.wire import zmtp
from kernels.wire.message import Signer

SHELL, IOPUB, STDIN, CONTROL = range(4)
PATIENCE_SECONDS = 120


class Source:
    """A kernel that is there and does nothing."""

    name, generation = "python", 1

    def alive(self) -> bool:
        return True

    def interrupt(self) -> None:
        return

    def kill(self) -> None:
        return


class Guest:
    """A relay whose kernel says what a test has it say, and the gateway that hears it."""

    def __init__(self) -> None:
        self.relay = Relay(Source(), self._reach, Runs(), open_unnamed)
        self._kernel = asyncio.Event()
        self._ours: socket.socket | None = None

    async def _reach(self, _number: int) -> socket.socket:
        await self._kernel.wait()
        raise AssertionError("nobody comes")

    async def come(self, since: int = 0) -> None:
        """Another gateway, which has everything up to that number."""
        self.leave()
        self._ours, theirs = socket.socketpair()
        self._ours.setblocking(False)
        loop = asyncio.get_running_loop()
        await loop.connect_accepted_socket(lambda: Connection(lambda _name, _generation: self.relay), theirs)
        hello = {"version": frames.VERSION, "link": str(id(theirs)), "kernel": "python", "generation": 1}
        self._ours.send(frames.encode(frames.HELLO, json.dumps(hello).encode()))
        await self.heard()
        self._ours.send(frames.encode(frames.START, frames.NUMBER.pack(since)))
        await self.settles()

    def leave(self) -> None:
        if self._ours is not None:
            self._ours.close()

    def begin(self) -> None:
        """Code is sent to the kernel."""
        run = {"id": "one", "msg_id": "asked", "session": "s", "seconds": 0, "grace_seconds": 0}
        self.relay.request(1, SHELL, json.dumps(run).encode(), b"")

    def say(self, channel: int, data: bytes = b"x") -> None:
        self.relay._take(channel, FIRST | LAST, data)

    def reply(self) -> None:
        parts = [b'{"msg_id":"r","msg_type":"execute_reply"}', b'{"msg_id":"asked"}', b"{}", b"{}"]
        self.say(SHELL, zmtp.encode(Signer(b"key").sign(parts)))

    async def heard(self) -> bytes:
        """What the gateway reads at once, when there is something."""
        assert self._ours is not None
        async with asyncio.timeout(PATIENCE_SECONDS):
            return await asyncio.get_running_loop().sock_recv(self._ours, 1 << 20)

    async def numbers(self) -> list[int]:
        """Those of the frames in it."""
        found = FrameDecoder(frames.MOST_FROM_GUEST).feed(await self.heard())
        return [frames.unpack(frames.NUMBER, body)[0] for _, body in found]

    async def settles(self) -> None:
        """Let the loop do what it can do now."""
        for _ in range(5):
            await asyncio.sleep(0)

    async def is_silent(self) -> bool:
        assert self._ours is not None
        await self.settles()
        try:
            return not self._ours.recv(1)
        except BlockingIOError:
            return True


Scenario = Callable[[Guest], Awaitable[None]]


def run(scenario: Scenario) -> None:
    async def carry_out() -> None:
        guest = Guest()
        try:
            await guest.come()
            await scenario(guest)
        finally:
            guest.leave()
            guest.relay.close()

    asyncio.run(carry_out())


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only what follows has anything sent that waits for it."""
    monkeypatch.setattr(relay, "RUNNING_SECONDS", 3_600.0)
    monkeypatch.setattr(relay, "ENDING_SECONDS", 3_600.0)


@pytest.mark.usefixtures("patient")
def test_short_code_is_heard_of_once_it_has_ended() -> None:
    async def scenario(guest: Guest) -> None:
        for first in (1, 5):
            guest.begin()
            guest.say(IOPUB)
            guest.say(IOPUB)
            guest.reply()
            assert await guest.is_silent()
            guest.say(IOPUB)
            assert await guest.numbers() == [first, first + 1, first + 2, first + 3]
            guest.relay.runs.forget("one")
            guest.relay.taken = 0

    run(scenario)


@pytest.mark.usefixtures("patient")
def test_what_nothing_follows_goes_out_at_once() -> None:
    async def scenario(guest: Guest) -> None:
        for number, channel in enumerate((IOPUB, SHELL, CONTROL, IOPUB), start=1):
            guest.say(channel)
            assert await guest.numbers() == [number], "no code runs"
        guest.begin()
        guest.say(IOPUB)
        guest.say(STDIN)
        assert await guest.numbers() == [5, 6], "somebody is asked, and has to know what for"
        guest.say(IOPUB)
        guest.say(CONTROL)
        assert await guest.numbers() == [7, 8], "somebody waits for an answer"

    run(scenario)


@pytest.mark.usefixtures("patient")
def test_no_more_waits_than_is_bounded() -> None:
    async def scenario(guest: Guest) -> None:
        guest.begin()
        guest.say(IOPUB, bytes(MOST_HELD_BYTES // 2))
        assert await guest.is_silent()
        guest.say(IOPUB, bytes(MOST_HELD_BYTES // 2))
        assert await guest.numbers() == [1, 2]

    run(scenario)


def test_long_code_is_heard_while_it_runs() -> None:
    async def scenario(guest: Guest) -> None:
        guest.begin()
        for number in (1, 2, 3):
            guest.say(IOPUB)
            assert await guest.numbers() == [number]
        guest.reply()
        assert await guest.numbers() == [4], "though nothing follows"

    run(scenario)


@pytest.mark.usefixtures("patient")
def test_who_comes_next_gets_what_the_one_before_was_not_sent() -> None:
    async def scenario(guest: Guest) -> None:
        guest.say(IOPUB)
        assert await guest.numbers() == [1]
        guest.begin()
        guest.say(IOPUB)
        guest.say(IOPUB)
        await guest.come(since=1)
        assert guest.relay.told == 1
        assert await guest.numbers() == [2, 3]
        guest.say(IOPUB)
        guest.reply()
        guest.say(IOPUB)
        assert await guest.numbers() == [4, 5, 6]

    run(scenario)
