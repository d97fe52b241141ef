"""The sandbox's side of one connection: requests are parsed, bodies read in pieces, answers written, by deadlines."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterable
from http.client import responses
from typing import Final

import h11

from kernel_gateway.egress import linear
from kernel_gateway.egress.budget import Meter
from kernel_gateway.egress.stream import PIECE_BYTES

_LINGER_BYTES: Final = 1_000_000
_LINGER_SECONDS: Final = 1.0

Headers = Iterable[tuple[str, str]]


class BadRequest(Exception):
    """What came is not HTTP as we take it."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status


class Gone(Exception):
    """The sandbox closed its connection, or nothing moved on it for too long."""


class ClientSide:
    """One connection from a sandbox, request after request. What is read and written is counted in the meter."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, meter: Meter) -> None:
        self._reader, self._writer, self.meter = reader, writer, meter
        self._limits = meter.limits
        writer.transport.set_write_buffer_limits(high=0)  # what was written is gone when `_write` returns
        self._http = linear.open_connection(h11.SERVER, self._limits.header_bytes)
        self.answering = False

    async def request(self) -> h11.Request | None:
        """The next request; None when the connection ends or stays silent. Raises `BadRequest` and `Gone`."""
        self.answering = False
        try:
            if not self._http.trailing_data[0]:
                first = await self._read(self._limits.idle_seconds)
                self._http.receive_data(first)
                if not first:
                    return None
            async with asyncio.timeout(self._limits.header_seconds):
                event = await self._event()
        except h11.RemoteProtocolError as error:
            raise BadRequest(error.error_status_hint, f"the request cannot be read: {error}") from None
        except TimeoutError:
            raise BadRequest(408, f"a request's head has {self._limits.header_seconds:g} s to arrive") from None
        if not isinstance(event, h11.Request):
            return None
        if not _has_body(event):
            await self._event()
        return event

    async def body(self) -> AsyncIterator[bytes]:
        """The request's body, counted as sent; raises `Gone` when it ends early and `OverBudget`."""
        if self._http.their_state is h11.DONE:
            return
        if self._http.they_are_waiting_for_100_continue:
            await self._write(lambda: h11.InformationalResponse(status_code=100, headers=[]))
        while True:
            try:
                event = await self._event()
            except h11.RemoteProtocolError as error:
                raise Gone(str(error)) from None
            if isinstance(event, h11.Data):
                self.meter.send(len(event.data))
                yield bytes(event.data)
            elif isinstance(event, h11.EndOfMessage):
                return
            else:
                raise Gone("the request's body was cut off")

    async def start(self, status: int, headers: Headers) -> None:
        """Begin an answer: `send` its body, then `end` it."""
        self.answering = True
        sent = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers]
        if self._http.their_state is not h11.DONE:
            sent.append((b"connection", b"close"))
        # botocore takes a status line without a phrase for no answer while it waits for a 100.
        phrase = responses.get(status, "Answer").encode()
        await self._write(lambda: h11.Response(status_code=status, headers=sent, reason=phrase))

    async def send(self, data: bytes) -> None:
        """A piece of the answer's body, counted as received; raises `OverBudget`."""
        self.meter.receive(len(data))
        await self._write(lambda: h11.Data(data=data))

    async def end(self) -> None:
        await self._write(h11.EndOfMessage)

    async def refuse(self, status: int, headers: Headers, content: bytes, *, head: bool = False) -> None:
        """A whole answer of the service's own, which is counted nowhere; to HEAD, `head`, it has no body."""
        await self.start(status, [*headers, ("content-length", str(len(content)))])
        if not head:
            await self._write(lambda: h11.Data(data=content))
        await self.end()

    async def answer(self, status: int, headers: Headers, content: bytes) -> None:
        """A whole answer."""
        length = [] if status == 204 else [("content-length", str(len(content)))]
        await self.start(status, [*headers, *length])
        if content:
            await self.send(content)
        await self.end()

    def proceed(self) -> bool:
        """Make ready for the next request; False when this connection has had its last."""
        if self._http.our_state is not h11.DONE or self._http.their_state is not h11.DONE:
            return False
        self._http.start_next_cycle()
        return True

    async def linger(self) -> None:
        """After the last answer: let a client that is still sending read it before the connection is closed."""
        with contextlib.suppress(OSError, TimeoutError, Gone, RuntimeError):
            if self._writer.can_write_eof():
                self._writer.write_eof()
            async with asyncio.timeout(_LINGER_SECONDS):
                left = _LINGER_BYTES
                while left > 0 and (data := await self._reader.read(PIECE_BYTES)):
                    left -= len(data)

    async def _event(self) -> h11.Event | type[h11.NEED_DATA] | type[h11.PAUSED]:
        await asyncio.sleep(0)  # one piece may be hundreds of requests: others have their turn between them
        while (event := self._http.next_event()) is h11.NEED_DATA:
            self._http.receive_data(await self._read(self._limits.idle_seconds))
        return event

    async def _read(self, seconds: float) -> bytes:
        try:
            async with asyncio.timeout(seconds):
                return await self._reader.read(PIECE_BYTES)
        except (OSError, TimeoutError) as error:
            raise Gone(str(error)) from None

    async def _write(self, make: Callable[[], h11.Event]) -> None:
        try:
            self._writer.write(self._http.send(make()) or b"")
            async with asyncio.timeout(self._limits.idle_seconds):
                await self._writer.drain()
        except (OSError, TimeoutError, h11.LocalProtocolError) as error:
            raise Gone(str(error)) from None


def _has_body(request: h11.Request) -> bool:
    framing = {name: value for name, value in request.headers if name in {b"content-length", b"transfer-encoding"}}
    return b"transfer-encoding" in framing or framing.get(b"content-length", b"0").strip(b"0") != b""
