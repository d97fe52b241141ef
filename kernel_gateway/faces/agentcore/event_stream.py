"""Framing of the answer of InvokeCodeInterpreter: messages of `application/vnd.amazon.eventstream`. Pure.

A message is: total length, length of the headers, CRC-32 of these two, headers, payload, CRC-32 of all before it; all
integers big-endian. A header is its name (a byte of length before it), the type 7 for text, and the text (two bytes of
length before it). The format is that of AWS, as botocore's `eventstream` module reads it.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final
from zlib import crc32

MEDIA_TYPE: Final = "application/vnd.amazon.eventstream"
PIECE_BYTES: Final = 1 << 20
"""A large message goes out in pieces of this size, so that a slow client holds up no more than one."""
_TEXT: Final = 7


def frame_result(payload: bytes) -> Iterator[bytes]:
    """The event that carries a tool's result, `payload` being its JSON; piece by piece."""
    return frame_message(
        {":event-type": "result", ":content-type": "application/json", ":message-type": "event"}, payload
    )


def frame_exception(member: str, payload: bytes) -> Iterator[bytes]:
    """A modelled error once the answer has begun; `member` is the stream's member, as `throttlingException`."""
    headers = {":exception-type": member, ":content-type": "application/json", ":message-type": "exception"}
    return frame_message(headers, payload)


def frame_message(headers: dict[str, str], payload: bytes) -> Iterator[bytes]:
    """A message, its payload not copied as a whole."""
    head = _frame_head(headers, len(payload))
    tail = struct.pack(">I", crc32(payload, crc32(head)))
    if len(payload) <= PIECE_BYTES:
        yield head + payload + tail
        return
    yield head
    view = memoryview(payload)
    for start in range(0, len(payload), PIECE_BYTES):
        yield bytes(view[start : start + PIECE_BYTES])
    yield tail


def _frame_head(headers: dict[str, str], payload_bytes: int) -> bytes:
    encoded = b"".join(_frame_header(name.encode(), value.encode()) for name, value in headers.items())
    prelude = struct.pack(">II", 16 + len(encoded) + payload_bytes, len(encoded))
    return prelude + struct.pack(">I", crc32(prelude)) + encoded


def _frame_header(name: bytes, value: bytes) -> bytes:
    return struct.pack(">B", len(name)) + name + struct.pack(">BH", _TEXT, len(value)) + value


KEEP_ALIVE: Final = b"".join(
    frame_message({":event-type": "keepalive", ":content-type": "application/json", ":message-type": "event"}, b"{}")
)
"""An event of a type that no client knows: they all skip it, and their read timeouts start again."""
