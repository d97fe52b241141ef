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
MOST_HELD_BYTES = 16 * 1024
"""Of frames that wait for what follows them."""


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
        self._held: list[bytes] = []
        """Frames that go out with what follows them; the first has the number that is due."""
        self._held_bytes = 0
        self._sending: asyncio.TimerHandle | None = None

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

    def push(self, frame: bytes, seconds: float = 0.0) -> None:
        """A frame that was just kept: passed on within so many seconds, unless others have to come before it."""
        relay = self._relay
        if not self._position or relay is None:
            return
        if self._full or self._position + len(self._held) != relay.store.next - 1:
            self._behind += len(frame)
            if self._behind > BEHIND_BYTES:
                relay.hold()
            return
        self._held.append(frame)
        self._held_bytes += len(frame)
        if seconds and self._held_bytes <= MOST_HELD_BYTES:
            self._send_in(seconds)
        else:
            self._send()

    def _send_in(self, seconds: float) -> None:
        """The sooner of this time and the one that is set."""
        loop = asyncio.get_running_loop()
        when = loop.time() + seconds
        if self._sending is not None:
            if self._sending.when() <= when:
                return
            self._sending.cancel()
        self._sending = loop.call_at(when, self._send)

    def _send(self) -> None:
        """Pass on what was held, as one piece; what the transport does not take now comes from the store."""
        held = self._let_go()
        if held and not self._full:
            self._position += len(held)
            self._write(b"".join(held))

    def _let_go(self) -> list[bytes]:
        if self._sending is not None:
            self._sending.cancel()
            self._sending = None
        held, self._held, self._held_bytes = self._held, [], 0
        return held

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
        self._let_go()  # whoever comes next gets it from the store
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
        self._let_go()
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
