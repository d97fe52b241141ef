"""A kernel's ZMTP 3.0 bytes cut into pieces as they come, for who passes them on. Pure.

Nothing of a message is looked into or held back longer than a piece is: a message of a hundred megabytes takes no more
memory here than a short one.
"""

from __future__ import annotations

import struct

from .frames import FIRST, LAST, MOST_PIECE_BYTES, PIECE_BYTES, ProtocolError

GREETING = b"\xff" + bytes(8) + b"\x7f" + b"\x03\x00" + b"NULL".ljust(20, b"\0") + bytes(32)
SUBSCRIBE_ALL = b"\x00\x01\x01"
_MORE, _LONG, _COMMAND = 1, 2, 4
_MOST_COMMAND = 8192


def ready(socket_type: str, identity: bytes) -> bytes:
    """The READY command that ends our half of the handshake."""
    body = b"\x05READY" + _property(b"Socket-Type", socket_type.encode()) + _property(b"Identity", identity)
    return struct.pack("!BB", _COMMAND, len(body)) + body


def _property(name: bytes, value: bytes) -> bytes:
    return bytes([len(name)]) + name + struct.pack("!I", len(value)) + value


class Splitter:
    """The bytes of one connection; `replies` is what is to be answered, `is_ready` once the handshake is done."""

    def __init__(self) -> None:
        self.is_ready = False
        self.replies = b""
        self._buffer = bytearray()
        self._greeted = False
        self._position = 0
        """How far the buffer has been looked through; what is before it belongs to the message that has begun."""
        self._left = -1
        """Bytes that are missing of the frame that has begun; -1 between frames."""
        self._ends = False
        """Whether that frame is its message's last one."""
        self._flags = FIRST

    def feed(self, data: bytes) -> list[tuple[int, bytes]]:
        """Flags and bytes of the pieces that are complete with `data`; raises ProtocolError."""
        self._buffer += data
        if not self._greeted and not self._read_greeting():
            return []
        pieces: list[tuple[int, bytes]] = []
        start = 0
        while True:
            if self._left < 0 and not self._begin_frame(start):
                break
            if self._left < 0:  # it was a command, which is no part of any message
                start = self._position
                continue
            taken = min(self._left, len(self._buffer) - self._position)
            self._position += taken
            self._left -= taken
            if self._left:
                break
            self._left = -1
            if self._ends:
                self._cut(pieces, start, LAST)
                self._flags, start = FIRST, self._position
        if self._position - start >= PIECE_BYTES:
            self._cut(pieces, start, 0)
            self._flags, start = 0, self._position
        del self._buffer[:start]
        self._position -= start
        return pieces

    def _cut(self, pieces: list[tuple[int, bytes]], start: int, last: int) -> None:
        """Add what is there of a message: one read may be of more than a piece may have."""
        while self._position - start > MOST_PIECE_BYTES:
            pieces.append((self._flags, bytes(memoryview(self._buffer)[start : start + MOST_PIECE_BYTES])))
            self._flags, start = 0, start + MOST_PIECE_BYTES
        pieces.append((self._flags | last, bytes(memoryview(self._buffer)[start : self._position])))

    def _read_greeting(self) -> bool:
        buffer = self._buffer
        if (buffer and buffer[0] != 0xFF) or (len(buffer) > 10 and (buffer[9] & 1 == 0 or buffer[10] < 3)):
            raise ProtocolError("the peer does not speak ZMTP 3")
        if len(buffer) < len(GREETING):
            return False
        if bytes(buffer[12:32]).rstrip(b"\0") != b"NULL":
            raise ProtocolError("the peer wants a security mechanism")
        del buffer[: len(GREETING)]
        self._greeted = True
        return True

    def _begin_frame(self, start: int) -> bool:
        """Read the header at the present position, and a command whole; False when more bytes are needed."""
        buffer, position = self._buffer, self._position
        if len(buffer) < position + 2:
            return False
        flags = buffer[position]
        if flags & ~(_MORE | _LONG | _COMMAND) or (flags & _COMMAND and flags & _MORE):
            raise ProtocolError("a frame has flags that do not exist")
        if not flags & _LONG:
            size, body = buffer[position + 1], position + 2
        elif len(buffer) < position + 9:
            return False
        else:
            size, body = int.from_bytes(buffer[position + 1 : position + 9], "big"), position + 9
        if not flags & _COMMAND:
            if not self.is_ready:
                raise ProtocolError("a message came before the handshake was done")
            self._position, self._left, self._ends = body, size, not flags & _MORE
            return True
        if size > _MOST_COMMAND or position != start or self._flags != FIRST:
            raise ProtocolError("a command is longer than any command is, or within a message")
        if len(buffer) < body + size:
            return False
        self._obey(bytes(buffer[body : body + size]))
        self._position = body + size
        return True

    def _obey(self, body: bytes) -> None:
        name = body[1 : 1 + body[0]] if body else b""
        if name == b"READY":
            self.is_ready = True
        elif name == b"ERROR":
            raise ProtocolError(f"the peer refused the connection: {body[6:200]!r}")
        elif name == b"PING":
            pong = b"\x04PONG" + body[7:23]
            self.replies += struct.pack("!BB", _COMMAND, len(pong)) + pong
