"""Jupyter messages in WebSocket frames, both ways and in both forms. Pure.

`v1` is the subprotocol of that name: the parts as the kernel sent them, and buffers. The legacy form, for clients that
offer no subprotocol, is one JSON object; clients of it lose their connection over buffers and over frames that are
larger than `LEGACY_BYTES`, so what they get has neither. Formats: jupyter_server's page "WebSocket protocols".
"""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, Final

import msgspec

from kernel_gateway.services.attach.attachments import Incoming
from kernels.wire.message import Message

V1: Final = "v1.kernel.websocket.jupyter.org"
LEGACY_BYTES: Final = 10 * 1024 * 1024
"""The largest frame that Jupyter's own gateway client takes; it closes its connection over a larger one."""
LENIENT_BYTES: Final = 8 * 1024 * 1024
"""The longest part that is mended when it is not strict JSON, which is slow."""
MOST_BUFFERS: Final = 1_000
"""Buffers of one message of a client."""
PARTS: Final = 4
_OBJECT: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])
_EMPTY: Final = msgspec.Raw(b"{}")


class MalformedFrame(Exception):
    """This frame holds no message; the text says why."""


class _Legacy(msgspec.Struct):
    """A legacy message: clients leave out what is empty."""

    header: msgspec.Raw
    channel: str | None = None
    parent_header: msgspec.Raw = _EMPTY
    metadata: msgspec.Raw = _EMPTY
    content: msgspec.Raw = _EMPTY


_LEGACY: Final = msgspec.json.Decoder(_Legacy)


def unpack_v1(frame: bytes | str) -> Incoming:
    """The message in a v1 frame; raises MalformedFrame."""
    if isinstance(frame, str):
        raise MalformedFrame("a text frame, where v1 has binary ones")
    offsets = _read_offsets_v1(frame)
    pieces = [frame[start:end] for start, end in pairwise(offsets)]
    try:
        channel = pieces[0].decode()
    except UnicodeDecodeError:
        raise MalformedFrame("the channel's name is not UTF-8") from None
    return _make_incoming(channel, pieces[1 : 1 + PARTS], pieces[1 + PARTS :])


def pack_v1(channel: str, parts: Sequence[bytes]) -> bytes:
    """A v1 frame of a message's four parts and its buffers, as they are."""
    return b"".join(pieces_v1(channel, parts))


def pieces_v1(channel: str, parts: Sequence[bytes]) -> list[bytes]:
    """What such a frame is put together from: large parts need not be copied."""
    pieces = [channel.encode(), *parts]
    count = len(pieces) + 1
    place = 8 * (count + 1)
    offsets = [place]
    for piece in pieces:
        place += len(piece)
        offsets.append(place)
    return [struct.pack(f"<{count + 1}Q", count, *offsets), *pieces]


def unpack_legacy(frame: bytes | str) -> Incoming:
    """The message in a legacy frame: text, or binary when it has buffers; raises MalformedFrame."""
    buffers: list[bytes] = []
    if isinstance(frame, bytes):
        offsets = _read_offsets_legacy(frame)
        text, *buffers = [frame[start:end] for start, end in pairwise(offsets)]
    else:
        text = frame.encode("utf-8", "surrogatepass")
    found = _parse_legacy(text)
    parts = (found.header, found.parent_header, found.metadata, found.content)
    plain = [b"{}" if bytes(each) == b"null" else bytes(each) for each in parts]
    return _make_incoming(found.channel or "shell", plain, buffers)


def pack_legacy(channel: str, message: Message) -> bytes | None:
    """A legacy text frame without the buffers; None when a part is not JSON, however leniently read."""
    pieces = pieces_of_legacy(channel, message)
    return None if pieces is None else b"".join(pieces)


def pieces_of_legacy(channel: str, message: Message) -> list[bytes] | None:
    """What such a frame is put together from: large parts need not be copied."""
    parts = (message.header_json, message.parent_json, message.metadata_json, message.content_json)
    sound = [_read_object(part) for part in parts]
    header, parent, metadata, content = sound
    if header is None or parent is None or metadata is None or content is None:
        return None
    return legacy_pieces(channel, message.msg_id, message.msg_type, (header, parent, metadata, content))


def legacy_pieces(channel: str, msg_id: str, msg_type: str, parts: tuple[bytes, bytes, bytes, bytes]) -> list[bytes]:
    """The JSON object of these parts, which are JSON themselves."""
    header, parent, metadata, content = parts
    names = msgspec.json.encode({"channel": channel, "msg_id": msg_id, "msg_type": msg_type})
    pieces = [names[:-1], b',"header":', header, b',"parent_header":', parent, b',"metadata":', metadata]
    return [*pieces, b',"content":', content, b',"buffers":[]}']


def _make_incoming(channel: str, parts: Sequence[bytes], buffers: Sequence[bytes]) -> Incoming:
    if len(buffers) > MOST_BUFFERS:
        raise MalformedFrame(f"more than {MOST_BUFFERS:,} buffers")
    for name, part in zip(("header", "parent_header", "metadata", "content"), parts, strict=True):
        if not _is_object(part):
            raise MalformedFrame(f"the {name} is not a JSON object")
    header, parent, metadata, content = parts
    return Incoming(channel, header, parent, metadata, content, tuple(buffers))


def _read_offsets_v1(frame: bytes) -> Sequence[int]:
    count = int.from_bytes(frame[:8], "little")
    if not PARTS + 2 <= count <= PARTS + 2 + MOST_BUFFERS or 8 * (count + 1) > len(frame):
        raise MalformedFrame("the number of offsets fits no message")
    return _check(struct.unpack_from(f"<{count}Q", frame, 8), 8 * (count + 1), len(frame))


def _read_offsets_legacy(frame: bytes) -> Sequence[int]:
    count = int.from_bytes(frame[:4], "big")
    if not 1 <= count <= 1 + MOST_BUFFERS or 4 * (count + 1) > len(frame):
        raise MalformedFrame("the number of offsets fits no message")
    offsets = (*struct.unpack_from(f"!{count}I", frame, 4), len(frame))
    return _check(offsets, 4 * (count + 1), len(frame))


def _check(offsets: Sequence[int], first: int, length: int) -> Sequence[int]:
    """The offsets, when each is after the one before and inside the frame; raises MalformedFrame."""
    rising = all(one <= other for one, other in pairwise(offsets))
    if offsets[0] != first or not rising or offsets[-1] > length:
        raise MalformedFrame("the offsets fit no message")
    return offsets


def _parse_legacy(text: bytes) -> _Legacy:
    try:
        return _LEGACY.decode(text)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        mended = _repair(text)
        if mended is None or mended == text:
            raise MalformedFrame(f"not a JSON object of a message: {type(error).__name__}") from None
    try:
        return _LEGACY.decode(mended)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise MalformedFrame(f"not a JSON object of a message: {type(error).__name__}") from None


def _is_object(part: bytes) -> bool:
    return _read_object(part) is not None


def _read_object(part: bytes) -> bytes | None:
    """A part as it may stand in a JSON text: as it is when it is a JSON object in UTF-8, else mended, else None."""
    try:
        part.decode()
        _OBJECT.decode(part)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return _repair(part)
    return part


def _repair(part: bytes) -> bytes | None:
    """What Python takes for a JSON object and others do not (NaN, bytes that are not UTF-8), as one all take."""
    if len(part) > LENIENT_BYTES:
        return None
    try:
        value: Any = json.loads(part.decode("utf-8", "replace"), parse_constant=lambda _name: None)
        return json.dumps(value).encode() if isinstance(value, dict) else None
    except (ValueError, RecursionError):
        return None
