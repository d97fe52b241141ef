"""What a client is sent of a message, and what instead when that would cut it off. Pure.

A frame is given in pieces: a large part is the bytes that came from the kernel, however many clients get it.
"""

from __future__ import annotations

import json
from typing import Any

from kernel_gateway.faces.jupyter import framing
from kernels.wire.message import Message


def frame_v1(channel: str, message: Message) -> list[bytes]:
    """The message as it is."""
    parts = [message.header_json, message.parent_json, message.metadata_json, message.content_json]
    return framing.pieces_v1(channel, [*parts, *message.buffers])


def frame_legacy(channel: str, message: Message, where: str) -> list[bytes] | None:
    """The message as text without its buffers; a short word when it is too large, nothing when it is no JSON.

    `where`, the address at which the output can be read, stands in that note.
    """
    if message.size_bytes - sum(map(len, message.buffers)) <= framing.LEGACY_BYTES:
        pieces = framing.pieces_of_legacy(channel, message)
        if pieces is None or sum(map(len, pieces)) <= framing.LEGACY_BYTES:
            return pieces
    return _make_substitute(channel, message, where)


def _make_substitute(channel: str, message: Message, where: str) -> list[bytes] | None:
    """On iopub a line on standard error; elsewhere a reply of the same kind, for which the client waits."""
    header, parent = _parse_object(message.header_json), _parse_object(message.parent_json)
    if header is None or parent is None:
        return None
    word = f"[{message.size_bytes:,} bytes of {message.msg_type[:100]} are too large for this client: {where}]\n"
    msg_type, content = message.msg_type, _make_reply(message.msg_type, word)
    if channel == "iopub":
        msg_type, content = "stream", {"name": "stderr", "text": word}
    header["msg_type"] = msg_type
    parts = (_encode(header), _encode(parent), b"{}", _encode(content))
    return framing.legacy_pieces(channel, message.msg_id, msg_type, parts)


def _make_reply(msg_type: str, word: str) -> dict[str, Any]:
    if msg_type == "input_request":
        return {"prompt": word, "password": False}
    return {"status": "error", "ename": "MessageTooLarge", "evalue": word.strip(), "traceback": []}


def _parse_object(part: bytes) -> dict[str, Any] | None:
    if len(part) > framing.LENIENT_BYTES:
        return None
    try:
        value = json.loads(part)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _encode(value: Any) -> bytes:
    return json.dumps(value).encode()
