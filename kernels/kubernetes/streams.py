"""Streams to a guest on another machine: with mutual TLS, carried to one end of a socket pair for the caller.

What comes at one end is written to the other at once: a kernel says what it says in a few small pieces, and a task that
has to be woken for each would cost more than the piece.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol, TypeVar, cast

from kernels.errors import NotListening

PIECE_BYTES: Final = 64 * 1024
CONNECT_SECONDS: Final = 5.0
_ANSWER: Final = b"ok\n"
Stream = tuple[asyncio.StreamReader, asyncio.StreamWriter]
End = TypeVar("End", bound=asyncio.BaseProtocol)


class Way(Protocol):
    """How the port of one guest is reached."""

    async def connect(self, name: str, context: ssl.SSLContext, make: Callable[[], End]) -> End:
        """Connect to the guest whose certificate is for `name`; gives the protocol that `make` makes.

        Raises NotListening, NotReached.
        """


@dataclass(frozen=True)
class Direct:
    """By its address, over the network of pods."""

    address: tuple[str, int]

    async def connect(self, name: str, context: ssl.SSLContext, make: Callable[[], End]) -> End:
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                return (await loop.create_connection(make, *self.address, ssl=context, server_hostname=name))[1]
        except (OSError, TimeoutError) as error:  # TLS's own are OSErrors
            raise NotListening(f"the guest is not reached at {self.address[0]}: {error or 'no answer'}") from None


async def open_stream(way: Way, name: str, context: ssl.SSLContext) -> Stream:
    """What `Way.connect` connects to, for a task that reads and writes."""
    reader = asyncio.StreamReader(limit=PIECE_BYTES)
    end = await way.connect(name, context, lambda: _StreamEnd(reader))
    return reader, asyncio.StreamWriter(end.transport, end, reader, asyncio.get_running_loop())


class Streams:
    """All that this process carries. `open` returns the caller's end; the other one is closed with the guest's."""

    def __init__(self) -> None:
        self._carried: dict[_GuestEnd, str] = {}
        """By the names of their guests."""

    async def open(self, way: Way, name: str, wanted: str, context: ssl.SSLContext) -> socket.socket:
        """A stream to the socket `wanted` of the guest whose certificate is for `name`; raises as `Way` does."""
        guest = await way.connect(name, context, _GuestEnd)
        try:
            await guest.ask(wanted)
            caller, near = await _open_pair()
        except BaseException:
            guest.transport.abort()
            raise
        self._carried[guest] = name
        guest.lost.add_done_callback(lambda _: self._carried.pop(guest))
        guest.lead_to(near)
        return caller

    def cut(self, name: str) -> None:
        """End all streams to this guest: nothing comes from it any more. What is being opened its caller ends."""
        for guest, its in self._carried.items():
            if its == name:
                guest.transport.abort()

    async def aclose(self) -> None:
        carried = list(self._carried)
        for guest in carried:
            guest.transport.abort()
        await asyncio.gather(*(guest.lost for guest in carried))


class _End(asyncio.Protocol):
    """What comes to it is written to the other end, and read no faster than that one takes it."""

    other: _End | None = None
    transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        self.transport.set_write_buffer_limits(PIECE_BYTES)

    def data_received(self, data: bytes) -> None:
        if self.other is not None:
            self.other.transport.write(data)

    def pause_writing(self) -> None:
        if self.other is not None:
            self.other.transport.pause_reading()

    def resume_writing(self) -> None:
        if self.other is not None:
            self.other.transport.resume_reading()

    def connection_lost(self, error: Exception | None) -> None:
        """TLS has no half-closed streams here: what ends one way ends, once what came before has gone out."""
        if self.other is not None:
            self.other.transport.close()


class _GuestEnd(_End):
    """Asks the guest for one of its sockets, and then leads there."""

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        self.lost: asyncio.Future[None] = loop.create_future()
        self._answered: asyncio.Future[None] = loop.create_future()
        self._heard = b""

    async def ask(self, wanted: str) -> None:
        """Say which socket is meant; raises NotListening when nobody listens at it."""
        self.transport.write(f"{wanted}\n".encode())
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                await self._answered
        except (OSError, TimeoutError) as error:
            raise NotListening(f"the guest broke off: {error or 'no answer'}") from None
        if not self._heard.startswith(_ANSWER):
            raise NotListening(f"nothing listens at {wanted} of the sandbox")

    def lead_to(self, near: _End) -> None:
        """From what came behind the answer on."""
        self.other, near.other = near, self
        near.transport.write(self._heard[len(_ANSWER) :])
        if self.lost.done():
            near.transport.close()
        else:
            self.transport.resume_reading()

    def data_received(self, data: bytes) -> None:
        if self.other is not None:
            self.other.transport.write(data)
            return
        self._heard += data
        if len(self._heard) >= len(_ANSWER) and not self._answered.done():
            self._answered.set_result(None)
            self.transport.pause_reading()

    def connection_lost(self, error: Exception | None) -> None:
        super().connection_lost(error)
        if not self._answered.done():
            self._answered.set_exception(error if isinstance(error, OSError) else ConnectionResetError("it closed"))
            self._answered.exception()  # nobody may wait for it any more
        self.lost.set_result(None)


class _StreamEnd(asyncio.StreamReaderProtocol):
    """One that knows its transport."""

    transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self.transport = cast("asyncio.Transport", transport)


async def _open_pair() -> tuple[socket.socket, _End]:
    """The caller's end of a pair, a non-blocking socket, and what reads and writes the other."""
    caller, theirs = socket.socketpair()
    try:
        caller.setblocking(False)  # noqa: FBT003
        return caller, (await asyncio.get_running_loop().create_connection(_End, sock=theirs))[1]
    except BaseException:
        caller.close()
        theirs.close()
        raise
