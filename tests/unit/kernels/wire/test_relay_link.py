"""The link to a relay against one that lies: it costs the sandbox its kernel, and the service nothing."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from kernels.errors import KernelsError, NotListening, NotReached
from kernels.guest.relay import frames
from kernels.guest.relay.frames import FIRST, GAP, GAP_BODY, LAST, NUMBER, FrameDecoder, encode, encode_piece
from kernels.wire import relay_link, zmtp
from kernels.wire.channel import Pace
from kernels.wire.connection import KernelConnection
from kernels.wire.relay_link import Handlers, RelayLink, Run

WELCOME = {"version": 1, "first": 1, "next": 1, "taken": 0, "runs": [], "note": ""}
PATIENCE_SECONDS = 120


def welcome(**changed: Any) -> bytes:
    return encode(frames.WELCOME, json.dumps({**WELCOME, **changed}).encode())


def said(number: int, *texts: bytes, channel: int = 1, flags: int = FIRST | LAST) -> bytes:
    return encode_piece(number, channel, flags, zmtp.encode(texts))


class Relay:
    """Says `first` to each that comes, then what `answers` holds for that connection; keeps what it is sent.

    While it is `away` nobody reaches it, which `dialled_in_vain` counts.
    """

    away = False
    dialled_in_vain = 0

    def __init__(self, *answers: bytes) -> None:
        self.answers = list(answers)
        self.sent: list[list[tuple[int, bytes]]] = []
        self.writers: list[asyncio.StreamWriter] = []
        self._tasks: set[asyncio.Task[None]] = set()

    async def dial(self, name: str, *, patience_seconds: float = 0) -> socket.socket:
        if self.away:
            self.dialled_in_vain += 1
            await asyncio.sleep(0.1)
            raise NotReached("the way there is out")
        if not self.answers:
            raise NotListening("nothing listens")
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        task = asyncio.create_task(self._serve(theirs, self.answers.pop(0)))
        self._tasks.add(task)
        return ours

    async def _serve(self, connected: socket.socket, answer: bytes) -> None:
        reader, writer = await asyncio.open_connection(sock=connected)
        self.writers.append(writer)
        self.sent.append([])
        mine, decoder = self.sent[-1], FrameDecoder(frames.MOST_FROM_GATEWAY)
        writer.write(answer)
        while data := await reader.read(65536):
            mine.extend(decoder.feed(data))
        writer.close()

    async def close(self) -> None:
        for each in self.writers:
            each.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


class Heard:
    """What the link told."""

    def __init__(self) -> None:
        self.messages: list[tuple[str, Any]] = []
        self.cut: list[int] = []
        self.words: list[Any] = []
        self.stopped = False
        self.lost: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    def handlers(self) -> Handlers:
        return Handlers(
            lambda name, message: self.messages.append((name, message)),
            self.words.append,
            self.cut.append,
            self.lost.set_result,
            lambda: self.stopped,
        )


Scenario = Callable[[RelayLink, Heard], Awaitable[None]]


def with_link(relay: Relay, scenario: Scenario) -> None:
    async def run() -> None:
        heard = Heard()
        link = RelayLink(KernelConnection(relay.dial, 1, b"key", relay="python"), heard.handlers(), Pace())
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                await scenario(link, heard)
        finally:
            await link.aclose()
            await relay.close()

    asyncio.run(run())


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(relay_link, "RESUME_SECONDS", 0.3)


@pytest.mark.parametrize(
    "lie",
    [
        said(2, b"a"),
        said(1, b"a") + said(1, b"a"),
        said(1, b"a") + said(3, b"a"),
        said(2**64 - 1, b"a"),
        encode_piece(1, 9, FIRST | LAST, b""),
        encode_piece(1, 1, FIRST | LAST, b"\xff\xff\xff"),
        encode(GAP, GAP_BODY.pack(2, 5, 1)),
        encode(GAP, GAP_BODY.pack(1, 0, 1)),
        encode(GAP, GAP_BODY.pack(1, 2**63, 1)),
        encode(frames.WORD, NUMBER.pack(1) + b"[" * 100_000),
        encode(frames.WORD, NUMBER.pack(1) + b'{"lost": 5}'),
        encode(frames.WELCOME, b"{}"),
        encode(frames.SEND, b""),
        encode(frames.PIECE, b""),
        frames.HEAD.pack(2**32 - 1, frames.PIECE),
        b"HTTP/1.1 200 OK\r\n\r\n",
    ],
)
def test_a_relay_that_leaves_the_protocol_is_given_up(lie: bytes) -> None:
    async def scenario(link: RelayLink, heard: Heard) -> None:
        await link.open()
        link.start(0)
        relay.writers[0].write(lie)
        assert await heard.lost

    relay = Relay(welcome())
    with_link(relay, scenario)


@pytest.mark.parametrize(
    "answer",
    [
        said(1, b"a"),
        encode(frames.WELCOME, b"no json"),
        welcome(first=5, next=2),
        welcome(next=2**63),
        welcome(runs=[{"id": str(n), "msg_id": "", "session": "", "kernel": "", "generation": 1} for n in range(1001)]),
        encode(frames.REFUSED, b'{"code": "no_kernel", "message": "there is none"}'),
        b"\xff" * 100,
    ],
)
def test_a_welcome_that_makes_no_sense_is_none(answer: bytes) -> None:
    async def scenario(link: RelayLink, _heard: Heard) -> None:
        async with asyncio.timeout(1):
            await link.open()

    with pytest.raises((KernelsError, TimeoutError)):
        with_link(Relay(answer), scenario)


def test_a_relay_that_breaks_off_again_and_again_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(relay_link, "RESUME_SECONDS", PATIENCE_SECONDS)
    monkeypatch.setattr(relay_link, "STEADY_SECONDS", PATIENCE_SECONDS)
    monkeypatch.setattr(relay_link, "MOST_RESUMED", 10)

    async def scenario(link: RelayLink, heard: Heard) -> None:
        await link.open()
        link.start(0)
        assert await heard.lost
        assert len(relay.sent) == relay_link.MOST_RESUMED + 1

    relay = Relay(*[welcome() + said(7, b"a")] * 100)
    with_link(relay, scenario)


def test_what_did_not_arrive_is_sent_again_and_what_did_is_not() -> None:
    async def scenario(link: RelayLink, heard: Heard) -> None:
        await link.open()
        link.start(0)
        for number in range(4):
            link.send("shell", [b"request %d" % number], Run(f"r{number}", "m", "s"))
        while len(relay.sent[0]) < 6:
            await asyncio.sleep(0.01)
        relay.writers[0].write(said(1, b"a"))
        while not heard.messages:
            await asyncio.sleep(0.01)
        relay.writers[0].close()
        while len(relay.sent) < 2 or len(relay.sent[1]) < 4:
            await asyncio.sleep(0.01)
        (kind, hello), (start, since), *rest = relay.sent[1]
        assert (kind, start, NUMBER.unpack(since)) == (frames.HELLO, frames.START, (1,))
        assert json.loads(hello)["link"] == json.loads(relay.sent[0][0][1])["link"]
        assert [frames.split_send(body)[0] for _, body in rest] == [3, 4]
        assert not heard.lost.done()

    relay = Relay(welcome(), welcome(taken=2, next=2))
    with_link(relay, scenario)


def test_a_message_that_a_gap_tore_apart_is_left_out() -> None:
    async def scenario(link: RelayLink, heard: Heard) -> None:
        await link.open()
        link.start(0)
        half = zmtp.encode([b"torn", b"apart"])
        relay.writers[0].write(encode_piece(1, 1, FIRST, half[:4]))
        relay.writers[0].write(encode(GAP, GAP_BODY.pack(2, 7, 500)))
        relay.writers[0].write(encode_piece(8, 1, LAST, half[4:]))
        relay.writers[0].write(said(9, b"whole"))
        while not heard.messages:
            await asyncio.sleep(0.01)
        assert (heard.messages, heard.cut, link.position) == ([("iopub", [b"whole"])], [500], 9)

    relay = Relay(welcome())
    with_link(relay, scenario)


def test_a_start_within_a_message_leaves_out_its_rest_and_nothing_else() -> None:
    async def scenario(link: RelayLink, heard: Heard) -> None:
        await link.open()
        link.start(4)
        relay.writers[0].write(encode_piece(5, 1, 0, b"\xff" * 50) + encode_piece(6, 1, LAST, b"\xff" * 50))
        relay.writers[0].write(said(7, b"whole") + said(8, b"reply", channel=0))
        while len(heard.messages) < 2:
            await asyncio.sleep(0.01)
        assert heard.messages == [("iopub", [b"whole"]), ("shell", [b"reply"])]
        assert not heard.lost.done()

    relay = Relay(welcome(first=5, next=7))
    with_link(relay, scenario)


def test_what_is_durable_ends_before_a_message_that_is_not_complete() -> None:
    async def scenario(link: RelayLink, heard: Heard) -> None:
        await link.open()
        link.start(0)
        long = zmtp.encode([b"long"])
        relay.writers[0].write(said(1, b"a") + encode_piece(2, 1, FIRST, long[:3]) + said(3, b"b", channel=0))
        while len(heard.messages) < 2:
            await asyncio.sleep(0.01)
        assert (link.position, link.whole_position) == (3, 1)
        relay.writers[0].write(encode_piece(4, 1, LAST, long[3:]))
        while len(heard.messages) < 3:
            await asyncio.sleep(0.01)
        assert heard.messages[-1] == ("iopub", [b"long"])
        assert (link.position, link.whole_position) == (4, 4)

    relay = Relay(welcome())
    with_link(relay, scenario)


def test_a_message_that_begins_anew_is_read_from_there() -> None:
    async def scenario(link: RelayLink, heard: Heard) -> None:
        await link.open()
        link.start(0)
        relay.writers[0].write(encode_piece(1, 1, FIRST, zmtp.encode([b"never whole"])[:5]) + said(2, b"whole"))
        while not heard.messages:
            await asyncio.sleep(0.01)
        assert heard.messages == [("iopub", [b"whole"])]

    relay = Relay(welcome())
    with_link(relay, scenario)


def test_a_connection_that_breaks_before_its_welcome_is_followed_by_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(relay_link, "RESUME_SECONDS", PATIENCE_SECONDS)

    async def scenario(link: RelayLink, heard: Heard) -> None:
        await link.open()
        link.start(0)
        relay.writers[0].close()
        while not heard.messages:
            assert not heard.lost.done()
            await asyncio.sleep(0.01)
        assert len(relay.sent) == 4

    broken = b"\xff" * 100
    relay = Relay(welcome(), broken, broken, welcome(next=2) + said(1, b"a"))
    with_link(relay, scenario)


def test_a_frame_that_stops_in_the_middle_is_asked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(relay_link, "RESUME_SECONDS", PATIENCE_SECONDS)
    monkeypatch.setattr(relay_link, "FRAME_SECONDS", 0.05)

    async def scenario(link: RelayLink, heard: Heard) -> None:
        heard.stopped = True
        await link.open()
        link.start(0)
        relay.writers[0].write(said(1, b"a")[:-1])
        while not link.silent_seconds:
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.3)
        assert len(relay.sent) == 1, "a sandbox that stands still sends nothing"
        heard.stopped = False
        while not heard.messages:
            assert not heard.lost.done()
            await asyncio.sleep(0.01)
        assert link.silent_seconds == 0
        assert len(relay.sent) == 2

    relay = Relay(welcome(), welcome(next=2) + said(1, b"a"))
    with_link(relay, scenario)


def test_while_the_way_there_is_out_a_broken_connection_is_not_given_up() -> None:
    async def scenario(link: RelayLink, heard: Heard) -> None:
        await link.open()
        link.start(0)
        relay.away = True
        relay.writers[0].close()
        link.send("shell", [b"meanwhile"])
        while relay.dialled_in_vain < 10:  # for longer than one that is reached is given
            assert not heard.lost.done()
            await asyncio.sleep(0.01)
        relay.away = False
        while not heard.messages:
            assert not heard.lost.done()
            await asyncio.sleep(0.01)
        assert heard.messages == [("iopub", [b"a"])]
        while not any(kind == frames.SEND for kind, _ in relay.sent[1]):
            await asyncio.sleep(0.01)

    relay = Relay(welcome(), welcome(next=2) + said(1, b"a"))
    with_link(relay, scenario)


def test_a_way_that_stays_out_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(relay_link, "UNREACHED_SECONDS", 0.5)

    async def scenario(link: RelayLink, heard: Heard) -> None:
        await link.open()
        relay.away = True
        relay.writers[0].close()
        assert await heard.lost

    relay = Relay(welcome())
    with_link(relay, scenario)


def test_a_connection_that_is_refused_is_not_followed_by_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(relay_link, "RESUME_SECONDS", PATIENCE_SECONDS)

    async def scenario(link: RelayLink, heard: Heard) -> None:
        await link.open()
        link.start(0)
        relay.writers[0].close()
        assert await heard.lost
        assert len(relay.sent) == 2

    refused = encode(frames.REFUSED, b'{"code": "no_kernel", "message": "there is none"}')
    relay = Relay(welcome(), refused, welcome())
    with_link(relay, scenario)


def test_a_relay_that_never_says_what_it_took_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(relay_link, "MOST_UNCONFIRMED_BYTES", 100_000)

    async def scenario(link: RelayLink, heard: Heard) -> None:
        await link.open()
        link.start(0)
        sent = 0
        while not heard.lost.done():
            link.send("shell", [b"x" * 1000])
            sent += 1
            assert sent < 100
        link.send("shell", [b"later"])

    with_link(Relay(welcome()), scenario)
