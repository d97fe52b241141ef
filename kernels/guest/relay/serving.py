"""The gateway's connection to a relay, on any transport of asyncio's: a Unix socket, TCP with mutual TLS."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import cast

from . import frames
from .frames import FrameDecoder, ProtocolError
from .relay import BEHIND_BYTES, FindRelay, Relay

HIGH_WATER_BYTES = 512 * 1024


class Unavailable(Exception):
    """There is no such kernel; the text says why."""


class Connection(asyncio.Protocol):
    """One of them. `find` gives the relay of a kernel by its name and generation, or raises Unavailable."""

    def __init__(self, find: FindRelay) -> None:
        self._find = find
        self._decoder = FrameDecoder(frames.MOST_FROM_GATEWAY)
        self._transport: asyncio.Transport | None = None
        self._relay: Relay | None = None
        self._position = 0
        """The number that it gets next; 0 before it has said where to start."""
        self._full = False
        self._behind = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._transport.set_write_buffer_limits(HIGH_WATER_BYTES)

    def data_received(self, data: bytes) -> None:
        try:
            for kind, body in self._decoder.feed(data):
                self._take(kind, body)
        except (ProtocolError, ValueError, RecursionError, Unavailable) as error:
            code = "no_kernel" if isinstance(error, Unavailable) else "protocol"
            self._write(frames.encode(frames.REFUSED, json.dumps({"code": code, "message": str(error)}).encode()))
            self.drop()

    def connection_lost(self, error: Exception | None) -> None:
        self._transport = None
        self._leave()

    def pause_writing(self) -> None:
        self._full = True

    def resume_writing(self) -> None:
        self._full = False
        self._catch_up()

    def push(self, data: bytes, count: int = 1) -> None:
        """So many frames that were just kept: passed on at once, unless others have to come before them."""
        relay = self._relay
        if not self._position or relay is None:
            return
        if not self._full and self._position == relay.store.next - count:
            self._write(data)
            self._position += count
            return
        self._behind += len(data)
        if self._behind > BEHIND_BYTES:
            relay.hold()

    def read_on(self) -> None:
        """The kernel has read what it was sent."""
        if self._transport is not None:
            self._transport.resume_reading()

    def drop(self) -> None:
        """End the connection, once what was written has gone out."""
        self._leave()
        if self._transport is not None:
            self._transport.close()

    def _leave(self) -> None:
        relay, self._relay = self._relay, None
        if relay is not None:
            relay.told = max(relay.told, self._position - 1)
            relay.detach(self)

    def _take(self, kind: int, body: bytes) -> None:
        relay = self._relay
        if relay is None:
            if kind != frames.HELLO or self._position:
                raise ProtocolError("the first frame is no HELLO")
            self._greet(json.loads(body))
        elif kind == frames.SEND:
            number, channel, run, data = frames.split_send(body)
            relay.request(number, channel, run, data)
            if number % frames.TAKEN_EVERY == 0 or len(body) > frames.PIECE_BYTES:
                self._write(frames.encode(frames.TAKEN, frames.NUMBER.pack(relay.taken)))
            if relay.is_full(channel) and self._transport is not None:
                self._transport.pause_reading()
        elif kind == frames.START:
            (number,) = frames.unpack(frames.NUMBER, body)
            self._position = min(max(number + 1, relay.store.first), relay.store.next)
            self._catch_up()
        elif kind == frames.ACK:
            relay.store.acknowledge(frames.unpack(frames.NUMBER, body)[0])
        elif kind == frames.DONE:
            relay.runs.forget(body.decode())
        elif kind == frames.NOTE and len(body) <= frames.MOST_NOTE:
            relay.note = body
        else:
            raise ProtocolError(f"a frame of kind {kind}")

    def _greet(self, hello: object) -> None:
        if not isinstance(hello, dict) or hello.get("version") != frames.VERSION:
            raise ProtocolError(f"this relay speaks version {frames.VERSION}")
        relay = self._find(str(hello.get("kernel")), int(hello.get("generation", 0)))
        relay.attach(self, str(hello.get("link"))[:100])
        self._relay = relay
        welcome = {
            "version": frames.VERSION,
            "first": relay.store.first,
            "next": relay.store.next,
            "taken": relay.taken,
            "told": relay.told,
            "runs": relay.runs.describe(),
            "note": relay.note.hex(),
            "lost": relay.lost,
        }
        self._write(frames.encode(frames.WELCOME, json.dumps(welcome).encode()))

    def _catch_up(self) -> None:
        """Pass on what is kept, a segment at a time, as long as the transport takes it."""
        relay = self._relay
        while relay is not None and not self._full and self._position < relay.store.next:
            data, self._position = relay.store.read(max(self._position, relay.store.first))
            self._write(data)
            relay.progress()
        if relay is not None and self._position >= relay.store.next:
            self._behind = 0
            relay.read_on()

    def _write(self, data: bytes) -> None:
        if self._transport is not None:
            self._transport.write(data)


def serve(find: FindRelay) -> Callable[[], Connection]:
    """What a server of asyncio's makes its connections with."""
    return lambda: Connection(find)
