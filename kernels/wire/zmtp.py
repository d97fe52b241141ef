"""ZMTP 3.0 as a client speaks it (rfc.zeromq.org/spec/23), without I/O: greeting, commands, frames of bounded messages.

Spoken here and not by libzmq because kernels are hostile: libzmq bounds one frame but not the frames of a message, and
connects again in silence. What is bounded here is the whole message, and a peer that leaves is seen to leave.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

GREETING: Final = b"\xff" + bytes(8) + b"\x7f" + b"\x03\x00" + b"NULL".ljust(20, b"\0") + bytes(32)
SUBSCRIBE_ALL: Final = b"\x00\x01\x01"
"""The frame that subscribes a SUB socket to every topic."""

_MORE, _LONG, _COMMAND = 1, 2, 4
_MAX_COMMAND_BYTES: Final = 8192
_MAX_FRAMES: Final = 1024


class ProtocolError(Exception):
    """The peer does not speak ZMTP 3, or left the protocol."""


class Oversized(msgspec.Struct, frozen=True):
    """A message larger than the bound; it was skipped. `frames` are those that came before it outgrew the bound."""

    frames: list[bytes]
    size_bytes: int


def ready(socket_type: str, identity: bytes = b"") -> bytes:
    """The READY command that ends our half of the handshake."""
    properties = _property(b"Socket-Type", socket_type.encode()) + _property(b"Identity", identity)
    body = b"\x05READY" + properties
    return struct.pack("!BB", _COMMAND, len(body)) + body


def encode(frames: Sequence[bytes]) -> bytes:
    """One message as it goes over the wire."""
    parts: list[bytes] = []
    last = len(frames) - 1
    for index, frame in enumerate(frames):
        more = _MORE if index < last else 0
        size = len(frame)
        parts.append(struct.pack("!BB", more, size) if size < 256 else struct.pack("!BQ", more | _LONG, size))
        parts.append(frame)
    return b"".join(parts)


class Decoder:
    """Bytes of one connection to messages; keeps at most one message of `max_message_bytes` and one frame's header."""

    def __init__(self, max_message_bytes: int, *, established: bool = False) -> None:
        """`established`: somebody else has done the handshake."""
        self.is_ready = established
        self.replies = b""
        self._max_message_bytes = max_message_bytes
        self._buffer = bytearray()
        self._greeted = established
        self._frames: list[bytes] = []
        self._message_bytes = 0
        self._oversized = False
        self._skip_bytes = 0

    def feed(self, data: bytes) -> Iterator[list[bytes] | Oversized]:
        """Messages that are complete with `data`; what must be answered is appended to `replies`.

        Raises `ProtocolError`, after which the connection is of no use.
        """
        if self._skip_bytes:
            skipped = min(self._skip_bytes, len(data))
            self._skip_bytes -= skipped
            data = data[skipped:]
        self._buffer += data
        if not self._greeted:
            self._read_greeting()
        yield from self._read_frames()

    def _read_greeting(self) -> None:
        buffer = self._buffer
        if (buffer and buffer[0] != 0xFF) or (len(buffer) > 10 and (buffer[9] & 1 == 0 or buffer[10] < 3)):
            raise ProtocolError("the peer does not speak ZMTP 3")
        if len(buffer) < len(GREETING):
            return
        if bytes(buffer[12:32]).rstrip(b"\0") != b"NULL":
            raise ProtocolError("the peer wants a security mechanism")
        del buffer[: len(GREETING)]
        self._greeted = True

    def _read_frames(self) -> Iterator[list[bytes] | Oversized]:
        """Frames in the buffer; what follows them stays there. The buffer is cut once, not once a frame."""
        position = 0
        try:
            while self._greeted and (header := self._header(position)) is not None:
                flags, start, size = header
                end = start + size
                if not flags & _COMMAND and self._outgrows(size):
                    position = min(end, len(self._buffer))
                    self._skip_bytes = end - position
                elif end > len(self._buffer):
                    return
                else:
                    position = end
                    self._take(flags, bytes(memoryview(self._buffer)[start:end]))
                if not flags & (_COMMAND | _MORE):
                    yield self._complete()
                if self._skip_bytes:
                    return
        finally:
            del self._buffer[:position]

    def _header(self, position: int) -> tuple[int, int, int] | None:
        """Flags, start of the body and its size of the frame at `position`, or None when its header is not whole."""
        buffer = self._buffer
        if len(buffer) < position + 2:
            return None
        flags = buffer[position]
        if flags & ~(_MORE | _LONG | _COMMAND) or (flags & _COMMAND and flags & _MORE):
            raise ProtocolError("a frame has flags that do not exist")
        if not flags & _LONG:
            size, start = buffer[position + 1], position + 2
        elif len(buffer) < position + 9:
            return None
        else:
            size, start = int.from_bytes(buffer[position + 1 : position + 9], "big"), position + 9
        if flags & _COMMAND and size > _MAX_COMMAND_BYTES:
            raise ProtocolError("a command is longer than any command is")
        return flags, start, size

    def _outgrows(self, size: int) -> bool:
        """Whether the message with this frame is past the bound; from then on none of it is kept."""
        if self._oversized or self._message_bytes + size > self._max_message_bytes or len(self._frames) >= _MAX_FRAMES:
            self._oversized = True
            self._message_bytes += size
        return self._oversized

    def _take(self, flags: int, body: bytes) -> None:
        if flags & _COMMAND:
            self._obey(body)
        else:
            self._frames.append(body)
            self._message_bytes += len(body)

    def _obey(self, body: bytes) -> None:
        name = body[1 : 1 + body[0]] if body else b""
        if name == b"READY":
            self.is_ready = True
        elif name == b"ERROR":
            raise ProtocolError(f"the peer refused the connection: {body[6:200]!r}")
        elif name == b"PING":
            pong = b"\x04PONG" + body[7:23]
            self.replies += struct.pack("!BB", _COMMAND, len(pong)) + pong

    def _complete(self) -> list[bytes] | Oversized:
        if not self.is_ready:
            raise ProtocolError("a message came before the handshake was done")
        frames, size, oversized = self._frames, self._message_bytes, self._oversized
        self._frames, self._message_bytes, self._oversized = [], 0, False
        return Oversized(frames, size) if oversized else frames


def _property(name: bytes, value: bytes) -> bytes:
    return bytes([len(name)]) + name + struct.pack("!I", len(value)) + value
