"""What the relay and the gateway say to each other, as bytes. Pure; both sides use it, over any stream of bytes.

A frame is its body's length (4 bytes), its kind (1 byte) and the body. What kernels say is numbered from 1, one number
a frame, and keeps its number for ever: a gateway that comes back names the last one it has and gets the rest. Messages
travel as the ZMTP frames they came as, in pieces when they are long.

| kind | from | body |
|---|---|---|
| HELLO | gateway | JSON: `version`, `link` (the same when only the connection broke), `kernel`, `generation` |
| WELCOME | relay | JSON: `version`, `first` (number kept), `next`, `taken` (of this link), `runs`, `note`, `lost` |
| REFUSED | relay | JSON: `code`, `message`; the connection ends |
| START | gateway | number of the last frame it has: what comes after it is wanted from now on |
| SEND | gateway | number of the request on this link, length of its run, channel; run as JSON or nothing; ZMTP frames |
| TAKEN | relay | number of the last request of this link that was taken |
| ACK | gateway | number: everything up to it is durable |
| DONE | gateway | id of a run whose outcome is durable |
| NOTE | gateway | bytes that the next WELCOME repeats |
| PIECE | relay | number, channel, flags; ZMTP frames |
| GAP | relay | first and last number that were cut, and their bytes |
| WORD | relay | number; JSON: `lost` (why no kernel is connected any more), `deadline` (a run's id) with `stage`, or
`interrupted` (a run's id): somebody asked for that |
"""

from __future__ import annotations

import struct

VERSION = 1
HELLO, WELCOME, REFUSED, START, SEND, TAKEN, ACK, DONE, NOTE, PIECE, GAP, WORD = range(1, 13)
NUMBERED = (PIECE, GAP, WORD)

FIRST, LAST = 1, 2
"""Flags of a piece: a message begins with it, ends with it."""
CHANNELS = ("shell", "iopub", "stdin", "control")
IOPUB = CHANNELS.index("iopub")

PIECE_BYTES = 64 * 1024
MOST_PIECE_BYTES = 128 * 1024
"""A message that is longer than the first travels in pieces, each of at most so many bytes as the second says."""
TAKEN_EVERY = 16
"""Requests after which the gateway hears which were taken; after one longer than a piece it hears at once."""
MOST_FROM_GUEST = 1024 * 1024
"""A welcome is the longest: it has the note, in twice as many digits, and a thousand runs."""
MOST_FROM_GATEWAY = 128 * 1024 * 1024
MOST_NOTE = 64 * 1024

HEAD = struct.Struct("!IB")
NUMBER = struct.Struct("!Q")
PIECE_HEAD = struct.Struct("!QBB")
GAP_BODY = struct.Struct("!QQQ")
SEND_HEAD = struct.Struct("!QIB")
_PIECE = struct.Struct("!IBQBB")


class ProtocolError(Exception):
    """The peer left the protocol: the connection is of no use any more."""


def encode(kind: int, body: bytes = b"") -> bytes:
    """A frame."""
    return HEAD.pack(len(body), kind) + body


def encode_piece(number: int, channel: int, flags: int, data: bytes) -> bytes:
    """A frame with a piece of a kernel's message."""
    return _PIECE.pack(len(data) + PIECE_HEAD.size, PIECE, number, channel, flags) + data


def encode_send(number: int, channel: int, data: bytes, run: bytes = b"") -> bytes:
    """A frame with a request to a kernel, whole."""
    body = SEND_HEAD.pack(number, len(run), channel) + run + data
    return encode(SEND, body)


class FrameDecoder:
    """Bytes of one connection to frames; keeps at most one frame of `most_bytes`."""

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self._buffer = bytearray()

    @property
    def is_mid_frame(self) -> bool:
        """Whether a frame has begun whose end has not come."""
        return bool(self._buffer)

    def feed(self, data: bytes) -> list[tuple[int, bytes]]:
        """Kind and body of the frames that are complete with `data`; raises ProtocolError."""
        buffer = self._buffer
        buffer += data
        found = []
        position, there = 0, len(buffer)
        while there - position >= HEAD.size:
            size, kind = HEAD.unpack_from(buffer, position)
            if size > self._most_bytes or not HELLO <= kind <= WORD:
                raise ProtocolError(f"a frame of kind {kind} with {size} bytes")
            end = position + HEAD.size + size
            if end > there:
                break
            found.append((kind, bytes(memoryview(buffer)[position + HEAD.size : end])))
            position = end
        if position:
            del buffer[:position]
        return found


def unpack(layout: struct.Struct, body: bytes) -> tuple[int, ...]:
    """The numbers that a body begins with; raises ProtocolError."""
    if len(body) < layout.size:
        raise ProtocolError("a frame is too short")
    return layout.unpack_from(body)


def split_send(body: bytes) -> tuple[int, int, bytes, bytes]:
    """Number, channel, run and ZMTP frames of a SEND; raises ProtocolError."""
    number, size, channel = unpack(SEND_HEAD, body)
    start = SEND_HEAD.size + size
    if channel >= len(CHANNELS) or start > len(body):
        raise ProtocolError("a request for no channel")
    return number, channel, body[SEND_HEAD.size : start], body[start:]
