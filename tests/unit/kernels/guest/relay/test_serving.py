"""What a kernel says on its way to the gateway: what came together goes together, after a jam nothing is missing."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Awaitable, Callable

from kernels.guest.relay import frames
from kernels.guest.relay.frames import FIRST, LAST, FrameDecoder
from kernels.guest.relay.kernels import open_unnamed
from kernels.guest.relay.relay import Relay
from kernels.guest.relay.runs import Run, Runs
from kernels.guest.relay.serving import HIGH_WATER_BYTES, Connection

IOPUB = frames.IOPUB
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
    """A relay whose kernel says what a test has it say, and a gateway that reads when a test does."""

    def __init__(self) -> None:
        self.relay = Relay(Source(), self._reach, Runs(), open_unnamed)
        self._gateway: socket.socket | None = None
        self._decoder = FrameDecoder(frames.MOST_FROM_GUEST)

    async def _reach(self, _number: int) -> socket.socket:
        await asyncio.Event().wait()
        raise AssertionError("nobody comes")

    async def come(self) -> None:
        self._gateway, theirs = socket.socketpair()
        self._gateway.setblocking(False)
        loop = asyncio.get_running_loop()
        await loop.connect_accepted_socket(lambda: Connection(lambda _name, _generation: self.relay), theirs)
        hello = {"version": frames.VERSION, "link": "one", "kernel": "python", "generation": 1}
        self._gateway.send(frames.encode(frames.HELLO, json.dumps(hello).encode()))
        await self._read()
        self._gateway.send(frames.encode(frames.START, frames.NUMBER.pack(0)))
        for _ in range(5):
            await asyncio.sleep(0)

    def leave(self) -> None:
        if self._gateway is not None:
            self._gateway.close()

    def say(self, *messages: bytes) -> None:
        """Messages that the guest reads at once."""
        self.relay._take(IOPUB, [(FIRST | LAST, each) for each in messages])

    async def _read(self) -> bytes:
        assert self._gateway is not None
        async with asyncio.timeout(PATIENCE_SECONDS):
            return await asyncio.get_running_loop().sock_recv(self._gateway, 1 << 20)

    async def hear(self) -> list[int]:
        """The numbers of the frames that one read brings."""
        found = self._decoder.feed(await self._read())
        return [frames.unpack(frames.NUMBER, body)[0] for _, body in found]


def run(scenario: Callable[[Guest], Awaitable[None]]) -> None:
    async def carry_out() -> None:
        guest = Guest()
        try:
            await guest.come()
            await scenario(guest)
        finally:
            guest.leave()
            guest.relay.close()

    asyncio.run(carry_out())


def test_what_comes_together_goes_together() -> None:
    async def scenario(guest: Guest) -> None:
        guest.say(b"busy", b"input")
        assert await guest.hear() == [1, 2]
        guest.say(b"idle")
        assert await guest.hear() == [3]

    run(scenario)


def test_a_gateway_that_was_behind_gets_everything_once_and_in_order() -> None:
    async def scenario(guest: Guest) -> None:
        size = HIGH_WATER_BYTES // 8
        for _ in range(20):
            guest.say(bytes(size), b"x", bytes(size))
        heard: list[int] = []
        while len(heard) < 60:
            heard += await guest.hear()
        guest.say(b"and", b"more")
        while len(heard) < 62:
            heard += await guest.hear()
        assert heard == list(range(1, 63))

    run(scenario)


def test_an_interrupt_for_a_run_that_has_ended_marks_no_other() -> None:
    """As one that was sent at the deadline of code that ended just then, and comes once the next code runs."""

    async def scenario(guest: Guest) -> None:
        for name in ("first", "next"):
            described = json.dumps({"id": name, "msg_id": name, "session": "s"}).encode()
            guest.relay.runs.add(Run(described, "python", 1))
        first, following = guest.relay.runs.of("python", 1)
        assert guest.relay.note_interrupt("deadline", "first")
        first.end()
        assert not guest.relay.note_interrupt("deadline", "first")
        assert not guest.relay.note_interrupt("request", "first")
        assert following.noted == set()
        assert guest.relay.note_interrupt("request")
        assert (first.noted, following.noted) == ({"deadline"}, {"request"})

    run(scenario)
