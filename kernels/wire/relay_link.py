"""The way to a kernel by its guest's relay: one connection for all channels, resumed where it broke off.

The relay is as hostile as all that is in a sandbox: what it sends is bounded, its numbers must follow each other, and
one that breaks off again and again is given up. The protocol is that of `kernels.guest.relay.frames`.
"""

from __future__ import annotations

import asyncio
import os
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, cast

import msgspec

from kernels.cancelling import cancel_all
from kernels.errors import KernelsError, NotReached, SandboxFailed, SandboxGone
from kernels.guest.relay import frames
from kernels.guest.relay.frames import FrameDecoder, ProtocolError
from kernels.wire import zmtp
from kernels.wire.channel import MAX_MESSAGE_BYTES, READ_BYTES, Pace
from kernels.wire.connection import KernelConnection
from kernels.wire.dialing import POLL_SECONDS

RESUME_SECONDS: Final = 60.0
"""How long a connection that broke is tried to be made again. That a sandbox or a kernel is gone is known sooner."""
UNREACHED_SECONDS: Final = 600.0
"""How long it is, from when the way to the sandbox is out: that says nothing of the guest."""
MOST_RESUMED: Final = 50
"""How often without a steady time between: a relay that breaks off again and again is none."""
STEADY_SECONDS: Final = 60.0
FRAME_SECONDS: Final = 15.0
"""How long a frame may take from its first byte to its last: a relay sends each at once, and the longest has a MB."""
RESUME_PAUSE_SECONDS: Final = 0.05
OWED_SECONDS: Final = 0.1
MOST_RUNS: Final = 1_000
MOST_UNCONFIRMED_BYTES: Final = 160 * 1024 * 1024
"""Of requests that the relay has not said to have taken; one may have up to 128 MB."""
_REQUEST_BYTES: Final = 1024
"""What each counts besides."""
CONFIRMED_LATE_BYTES: Final = frames.TAKEN_EVERY * (frames.PIECE_BYTES + _REQUEST_BYTES)
"""What an honest relay may have taken and not confirmed yet: short requests are confirmed a few at a time."""
ACK_BYTES: Final = 256 * 1024
"""What is taken before the relay hears of it where nothing runs."""


class Run(msgspec.Struct, frozen=True):
    """A request that carries out an execution: the guest takes it once, and ends it at its deadline."""

    id: str
    msg_id: str
    session: str
    seconds: float = 0.0
    grace_seconds: float = 0.0


class TakenRun(msgspec.Struct, frozen=True):
    """A run that the relay has taken, of which no gateway has said that it is done with it."""

    id: str
    msg_id: str
    session: str
    kernel: str
    generation: int
    key: str = msgspec.field(default="")
    """What that kernel signs with: another may be in its place by now."""


class Welcome(msgspec.Struct, frozen=True):
    """What the relay has: frames from `first` to `next` exclusively, the last request `taken` of this link.

    Up to `told` an earlier gateway was sent them.
    """

    version: int
    first: int
    next: int
    taken: int
    told: int = 0
    runs: list[TakenRun] = []
    note: str = ""
    lost: str = ""
    """Why no kernel is connected any more: it has nothing more to say than what is kept."""


class Word(msgspec.Struct, frozen=True):
    """Something that the relay says itself: its kernel's sockets have closed, or why a run was interrupted."""

    lost: str | None = None
    deadline: str | None = None
    stage: str = ""
    interrupted: str | None = None
    """A run that somebody asked to stop."""


class _Refusal(msgspec.Struct, frozen=True):
    code: str = ""
    message: str = ""


_decode_welcome: Final = msgspec.json.Decoder(Welcome).decode
_decode_word: Final = msgspec.json.Decoder(Word).decode
_decode_refusal: Final = msgspec.json.Decoder(_Refusal).decode


@dataclass
class Handlers:
    """What is called with what comes, in order; each returns at once.

    `received(channel, message)`, `word`, `cut(bytes)` for what the relay could not keep, `lost(why)` once at the end.
    """

    received: Callable[[str, list[bytes] | zmtp.Oversized], None]
    word: Callable[[Word], None]
    cut: Callable[[int], None]
    lost: Callable[[str], None]
    is_stopped: Callable[[], bool] = lambda: False
    """Asked whether the sandbox stands still, as it may in the middle of a frame."""


@dataclass
class _Assembly:
    """Messages of one channel, of pieces; `whole` is False until the first piece after a gap, or after a start."""

    decoder: zmtp.Decoder = field(default_factory=lambda: zmtp.Decoder(MAX_MESSAGE_BYTES, established=True))
    whole: bool = True
    begun: int = 0
    """The number of the first piece of a message that is not complete; 0 between messages."""

    def clear(self, *, whole: bool) -> None:
        """Let go of what came of a message."""
        self.decoder, self.whole, self.begun = zmtp.Decoder(MAX_MESSAGE_BYTES, established=True), whole, 0


class RelayLink:
    """One kernel's. `position` is the number of the last frame that was taken."""

    def __init__(self, connection: KernelConnection, handlers: Handlers, pace: Pace) -> None:
        self.position = 0
        self.began = 0
        """The number of the first frame of the message that was taken last."""
        self.welcome: Welcome | None = None
        self.kernel = connection
        """Whose frames these are; asked for at each connection."""
        self._handlers = handlers
        self._pace = pace
        self._name = os.urandom(16).hex()
        self._sent = 0
        self._unconfirmed: deque[tuple[int, bytes]] = deque()
        self._unconfirmed_bytes = 0
        self._assemblies = [_Assembly() for _ in frames.CHANNELS]
        self._connection: _Connection | None = None
        self._flowing = False
        self._owed = b""
        """What is to be said with the next frame."""
        self._owing: asyncio.TimerHandle | None = None
        self._resumed = 0
        self._broke = 0.0
        self._refused = False
        self._resuming: asyncio.Task[None] | None = None
        self._closed = self._suspended = False

    async def open(self) -> Welcome:
        """Connect; nothing comes before `start`. Raises SandboxFailed; the caller has a deadline."""
        self.welcome = await self._connect()
        return self.welcome

    def start(self, since: int) -> None:
        """Have all that comes after this number delivered, of what the relay has."""
        self._flowing = True
        if self.welcome is not None:
            self.position = min(max(since, self.welcome.first - 1), self.welcome.next - 1)
        for each in self._assemblies:  # what comes first may be the end of a message
            each.clear(whole=not self.position)
        self._write(frames.encode(frames.START, frames.NUMBER.pack(self.position)))

    @property
    def whole_position(self) -> int:
        """The number up to which all messages have been delivered whole: what is durable is no more than that."""
        begun = [each.begun for each in self._assemblies if each.begun]
        return min(begun) - 1 if begun else self.position

    def send(self, channel: str, message: Sequence[bytes], run: Run | None = None) -> None:
        """A request to the kernel. It goes out once, also when the connection breaks meanwhile."""
        self._sent += 1
        described = b"" if run is None else msgspec.json.encode(run)
        frame = frames.encode_send(self._sent, frames.CHANNELS.index(channel), zmtp.encode(message), described)
        self._unconfirmed.append((self._sent, frame))
        self._unconfirmed_bytes += len(frame) + _REQUEST_BYTES
        self._write(frame)
        if self._unconfirmed_bytes > MOST_UNCONFIRMED_BYTES and not self._closed:
            self.close()
            self._handlers.lost("the guest's relay does not say which requests it took")

    def acknowledge(self, number: int, run_id: str = "") -> None:
        """Everything up to this number is durable, and so is the outcome of that run: it is not asked for again."""
        done = frames.encode(frames.DONE, run_id.encode()) if run_id else b""
        self._owed += done + frames.encode(frames.ACK, frames.NUMBER.pack(number))
        if self._owing is None:  # it goes with the next request, or soon: the guest is not woken for it alone
            self._owing = asyncio.get_running_loop().call_later(OWED_SECONDS, self._write, b"")

    def leave_note(self, note: bytes) -> None:
        """What who comes next is to find in the welcome."""
        if len(note) <= frames.MOST_NOTE:
            self._write(frames.encode(frames.NOTE, note))

    def unsent_bytes(self, channel: str) -> int:
        """What has not been handed to the socket yet, of all channels, or has not reached the relay.

        A transport with TLS does not count what waits below it; what the relay has not confirmed it may have taken.
        """
        waiting = 0 if self._connection is None else self._connection.unsent_bytes
        return max(waiting, self._unconfirmed_bytes - CONFIRMED_LATE_BYTES)

    @property
    def silent_seconds(self) -> float:
        """How long ago the frame began that has not come to its end; 0 between frames."""
        return 0.0 if self._connection is None else self._connection.silent_seconds

    def suspend(self) -> None:
        """Drop the connection until `resume`: the guest is about to close it, and may do so for days."""
        self._suspended = True
        if self._resuming is not None:
            self._resuming.cancel()
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def resume(self) -> None:
        """Connect again where that was broken off; what was sent meanwhile goes out."""
        if self._suspended and not self._closed:
            self._suspended = False
            self._resuming = asyncio.create_task(self._resume("the guest did not come back"))

    def close(self) -> None:
        """Drop the connection; nothing is called any more."""
        self._write(b"")
        self._closed = True
        if self._resuming is not None:
            self._resuming.cancel()
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _write(self, frame: bytes) -> None:
        owed, self._owed = self._owed, b""
        if self._owing is not None:
            self._owing.cancel()
            self._owing = None
        if self._connection is not None:
            self._connection.write(owed + frame)

    async def _connect(self, unreached: Callable[[], None] = lambda: None) -> Welcome:
        """`unreached` is called whenever the way there is out."""
        while True:
            try:
                connection = await self.kernel.open_relay(
                    lambda: _Connection(self._take, self._connection_lost, self._pace, self._handlers.is_stopped)
                )
                break
            except SandboxGone:
                raise
            except SandboxFailed as error:
                if isinstance(error, NotReached):
                    unreached()
                await asyncio.sleep(POLL_SECONDS)
        hello = {"version": frames.VERSION, "link": self._name, "kernel": self.kernel.relay}
        hello["generation"] = self.kernel.generation
        connection.write(frames.encode(frames.HELLO, msgspec.json.encode(hello)))
        try:
            welcome = await connection.welcome
        except BaseException:
            self._refused = connection.refused
            connection.close()
            raise
        if self._closed:
            connection.close()
        else:
            self._connection = connection
            if connection.closed:  # it broke right behind its welcome
                self._connection_lost(connection, connection.why)
        return welcome

    def _take(self, kind: int, body: bytes) -> None:
        """One frame; raises ProtocolError."""
        if kind == frames.TAKEN:
            self._confirm(frames.unpack(frames.NUMBER, body)[0])
            return
        if not self._flowing or kind not in frames.NUMBERED:
            raise ProtocolError(f"a frame of kind {kind}")
        if kind == frames.GAP:
            first, last, size = frames.unpack(frames.GAP_BODY, body)
            if not first <= self.position + 1 <= last < 2**62:
                raise ProtocolError("a gap that is none")
            self.position = last
            for each in self._assemblies:
                each.clear(whole=False)
            self._handlers.cut(min(size, 2**62))
            return
        (number,) = frames.unpack(frames.NUMBER, body)
        if number != self.position + 1:
            raise ProtocolError(f"frame {number} came after {self.position}")
        self.position = number
        if kind == frames.PIECE:
            self._take_piece(body)
        else:
            self._handlers.word(_parse(_decode_word, body[frames.NUMBER.size :]))

    def _take_piece(self, body: bytes) -> None:
        number, channel, flags = frames.unpack(frames.PIECE_HEAD, body)
        if channel >= len(frames.CHANNELS):
            raise ProtocolError("a message of no channel")
        assembly = self._assemblies[channel]
        if flags & frames.FIRST:
            if assembly.begun or not assembly.whole:
                assembly.clear(whole=True)
            assembly.begun = number
        if not assembly.whole:
            return
        self.began = assembly.begun
        if flags & frames.LAST:
            assembly.begun = 0
        try:
            for message in assembly.decoder.feed(body[frames.PIECE_HEAD.size :]):
                self._handlers.received(frames.CHANNELS[channel], message)
        except zmtp.ProtocolError as error:
            raise ProtocolError(str(error)) from None
        assembly.decoder.replies = b""

    def _confirm(self, number: int) -> None:
        while self._unconfirmed and self._unconfirmed[0][0] <= number:
            self._unconfirmed_bytes -= len(self._unconfirmed.popleft()[1]) + _REQUEST_BYTES

    def _connection_lost(self, connection: _Connection, why: str) -> None:
        if self._closed or connection is not self._connection:
            return
        self._connection = None
        now = asyncio.get_running_loop().time()
        self._resumed = self._resumed + 1 if now - self._broke < STEADY_SECONDS else 1
        self._broke = now
        if connection.refused or self._resumed > MOST_RESUMED:
            self._handlers.lost(why)
        else:
            self._resuming = asyncio.create_task(self._resume(why))

    async def _resume(self, why: str) -> None:
        """Connect again, ask for what came since, and send again what did not arrive."""
        loop = asyncio.get_running_loop()
        most = loop.time() + UNREACHED_SECONDS
        patience = asyncio.timeout(RESUME_SECONDS)

        def wait_on() -> None:
            if not patience.expired():
                patience.reschedule(min(loop.time() + RESUME_SECONDS, most))

        try:
            async with patience:
                welcome = await self._connect_again(wait_on)
        except (KernelsError, TimeoutError, OSError):
            self._handlers.lost(why)
            return
        self._confirm(welcome.taken)
        if self._flowing:
            self._write(frames.encode(frames.START, frames.NUMBER.pack(self.position)))
        for _, frame in self._unconfirmed:
            self._write(frame)

    async def _connect_again(self, unreached: Callable[[], None]) -> Welcome:
        """A connection that breaks before its welcome is followed by another."""
        while True:
            await asyncio.sleep(RESUME_PAUSE_SECONDS)
            try:
                return await self._connect(unreached)
            except SandboxGone:
                raise
            except SandboxFailed:
                if self._refused:
                    raise

    async def aclose(self) -> None:
        """`close`, and see to the end of what was under way."""
        self.close()
        await cancel_all([self._resuming])


class _Connection(asyncio.BufferedProtocol):
    """One connection to the relay."""

    _read = memoryview(bytearray(READ_BYTES))
    """What one turn reads; it is all taken before the next one."""

    def __init__(
        self,
        take: Callable[[int, bytes], None],
        lost: Callable[[_Connection, str], None],
        pace: Pace,
        is_stopped: Callable[[], bool],
    ) -> None:
        self.welcome: asyncio.Future[Welcome] = asyncio.get_running_loop().create_future()
        self.refused = False
        self._take = take
        self._lost = lost
        self._pace = pace
        self._is_stopped = is_stopped
        self._decoder = FrameDecoder(frames.MOST_FROM_GUEST)
        self._begun: float | None = None
        """When the frame began that has not ended; None between frames."""
        self._looking: asyncio.TimerHandle | None = None
        self._transport: asyncio.Transport | None = None
        self.why = "the guest closed its connection to the kernel"

    def write(self, data: bytes) -> None:
        if self._transport is not None:
            self._transport.write(data)

    @property
    def closed(self) -> bool:
        return self._transport is None

    @property
    def unsent_bytes(self) -> int:
        return 0 if self._transport is None else self._transport.get_write_buffer_size()

    @property
    def silent_seconds(self) -> float:
        return 0.0 if self._begun is None else asyncio.get_running_loop().time() - self._begun

    def close(self) -> None:
        self._lost = lambda _connection, _why: None
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._read

    def buffer_updated(self, nbytes: int) -> None:
        loop = asyncio.get_running_loop()
        began = loop.time()
        try:
            found = self._decoder.feed(bytes(self._read[:nbytes]))
            for kind, body in found:
                if kind == frames.REFUSED:
                    self.refused = True
                    raise ProtocolError(_parse(_decode_refusal, body).message[:300])
                if self.welcome.done():
                    self._take(kind, body)
                else:
                    self._greet(kind, body)
        except ProtocolError as error:
            self._break_off(str(error))
            return
        if not self._decoder.is_mid_frame:
            self._begun = None
        elif found or self._begun is None:
            self._begun = began
            if self._looking is None:
                self._looking = loop.call_later(FRAME_SECONDS, self._look_at_frame)
        rest = self._pace.rest_after(began, loop.time())
        if rest and self._transport is not None:
            self._transport.pause_reading()
            loop.call_later(rest, self._read_on)

    def _break_off(self, why: str) -> None:
        self.why = f"the guest's relay: {why}"
        if self._transport is not None:
            self._transport.abort()

    def _look_at_frame(self) -> None:
        """One that does not go on is given up: what comes in its place is asked for on another connection."""
        self._looking = None
        if self._begun is None or self._transport is None:
            return
        loop = asyncio.get_running_loop()
        if self._is_stopped():
            self._begun = loop.time()
        left = self._begun + FRAME_SECONDS - loop.time()
        if left > 0:
            self._looking = loop.call_later(left, self._look_at_frame)
        else:
            self._break_off(f"a frame that has not ended within {FRAME_SECONDS:g} s")

    def _greet(self, kind: int, body: bytes) -> None:
        if kind != frames.WELCOME:
            raise ProtocolError("the first frame is no welcome")
        welcome = _parse(_decode_welcome, body)
        if not 1 <= welcome.first <= welcome.next < 2**62 or len(welcome.runs) > MOST_RUNS:
            raise ProtocolError("a welcome that makes no sense")
        self.welcome.set_result(welcome)

    def _read_on(self) -> None:
        if self._transport is not None:
            self._transport.resume_reading()

    def connection_lost(self, error: Exception | None) -> None:
        self._transport = None
        self._begun = None
        if self._looking is not None:
            self._looking.cancel()
        if not self.welcome.done():
            self.welcome.set_exception(SandboxFailed(self.why))
            self.welcome.exception()
        self._lost(self, self.why)


def _parse(decode: Callable[[bytes], Any], body: bytes) -> Any:
    try:
        return decode(body)
    except (msgspec.MsgspecError, RecursionError, UnicodeError) as error:
        raise ProtocolError(f"a frame that cannot be read: {type(error).__name__}") from None
