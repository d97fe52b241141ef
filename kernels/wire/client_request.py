"""What an attached client asks of a kernel: its message, checked and with its own header, ready to be signed. Pure.

Only what is listed here reaches a kernel. A header goes on as it came, byte for byte: the kernel repeats it in all that
it answers, and the client knows its answers by that.
"""

from __future__ import annotations

import json
import re
import uuid
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Final

import msgspec

from kernels.wire.message import Malformed, header_of, json_object

ALLOWED: Final = {
    "shell": frozenset(
        {
            "execute_request",
            "complete_request",
            "inspect_request",
            "history_request",
            "is_complete_request",
            "kernel_info_request",
            "comm_info_request",
            "comm_open",
            "comm_msg",
            "comm_close",
            "interrupt_request",
            "shutdown_request",
        }
    ),
    "control": frozenset(
        {
            "kernel_info_request",
            "debug_request",
            "usage_request",
            "interrupt_request",
            "shutdown_request",
            "create_subshell_request",
            "delete_subshell_request",
            "list_subshell_request",
        }
    ),
    "stdin": frozenset({"input_reply"}),
}
"""Messages of clients, by channel."""

WORK: Final = frozenset({"comm_open", "comm_msg", "input_reply"})
"""What a user does apart from running cells; everything else an open page asks by itself."""

LONGEST_HEADER_BYTES: Final = 16 * 1024
"""A client's header comes back with every message of what it asked for."""
LONGEST_ID: Final = 256
MOST_CLIENT_BUFFERS: Final = 1_000


class _Header(msgspec.Struct):
    msg_id: str
    msg_type: str
    session: str
    version: str
    subshell_id: str | int | bool | None = None


class _Execute(msgspec.Struct):
    code: str
    silent: bool = False
    store_history: bool = True
    user_expressions: dict[str, str] = {}
    allow_stdin: bool = False
    stop_on_error: bool = True


_decode_flat: Final = msgspec.json.Decoder(dict[str, str | int | bool | None]).decode
_SPARE_DEPTH: Final = 200
"""A kernel reads from deeper in its stack, and both have the same room."""
_LIKE_A_TIME: Final = re.compile(r"\d{4}-\d{2}-\d{2}T")
"""How a text begins that a kernel takes for a time, wherever in a header it stands."""


@dataclass(frozen=True)
class ClientRequest:
    """One message of a client's; `session` is the one its header names. Make it with `check_client_request`."""

    channel: str
    msg_id: str
    msg_type: str
    session: str
    header: bytes = field(repr=False)
    parent_header: bytes = field(repr=False)
    metadata: bytes = field(repr=False)
    content: bytes = field(repr=False)
    buffers: tuple[bytes, ...] = field(default=(), repr=False)
    silent: bool = False
    stop_on_error: bool = True

    @property
    def parts(self) -> tuple[bytes, ...]:
        return self.header, self.parent_header, self.metadata, self.content, *self.buffers

    @property
    def size_bytes(self) -> int:
        return sum(map(len, self.parts))


def check_client_request(
    channel: str,
    header: bytes,
    content: bytes,
    *,
    parent_header: bytes = b"{}",
    metadata: bytes = b"{}",
    buffers: tuple[bytes, ...] = (),
) -> ClientRequest:
    """Check a client's message; raises `Malformed`, whose text says what is wrong with it."""
    about = _header(header)
    if about.msg_type not in ALLOWED.get(channel, ()):
        where = channel if channel in ALLOWED else "this"
        raise Malformed(f"no message of this type is taken on the {where} channel")
    for name, part in (("parent_header", parent_header), ("metadata", metadata), ("content", content)):
        if json_object(part) is None:
            raise Malformed(f"the message's {name} is no JSON object")
    if len(buffers) > MOST_CLIENT_BUFFERS:
        raise Malformed(f"a message has at most {MOST_CLIENT_BUFFERS:,} buffers")
    return ClientRequest(
        channel, about.msg_id, about.msg_type, about.session, header, parent_header, metadata, content, buffers
    )


def find_answerable(channel: str, header: bytes) -> str | None:
    """The type of a request that cannot be carried out but can be answered, under the header as it came; else None.

    So no client waits for an answer because its header lacks something, as a session or a version.
    """
    if len(header) > LONGEST_HEADER_BYTES:
        return None
    try:
        _decode_flat(header)
        about = header_of(header)  # which is what the answer repeats
    except (msgspec.MsgspecError, UnicodeError, RecursionError, Malformed):
        return None
    if not 1 <= len(about.msg_id) <= LONGEST_ID or about.msg_type not in ALLOWED.get(channel, ()):
        return None
    return about.msg_type if about.msg_type.endswith("_request") else None


def prepare_cell(request: ClientRequest) -> tuple[str, ClientRequest]:
    """The code of an execute_request, and the request as it goes to the kernel; raises `Malformed`.

    An error never empties the kernel's own queue, where others' code may wait: who queues aborts what follows. No two
    have one signature: a kernel drops what it has seen before without a word, as it does what it cannot read.
    """
    _require_read_by_kernels(request)
    if _header(request.header).subshell_id is not None:
        raise Malformed("cells run one at a time in the main shell: leave subshell_id out of the header")
    try:
        asked = msgspec.json.decode(request.content, type=_Execute)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        raise Malformed(
            "an execute_request has a text `code`, texts as user_expressions, and true or false as silent,"
            " store_history, allow_stdin and stop_on_error"
        ) from None
    content = _with(request.content, stop_on_error=False)
    metadata = _with(request.metadata, sandcell=uuid.uuid4().hex)
    prepared = replace(request, parent_header=b"{}", content=content, metadata=metadata)
    return asked.code, replace(prepared, silent=asked.silent, stop_on_error=asked.stop_on_error)


def _require_read_by_kernels(request: ClientRequest) -> None:
    """A cell that a kernel drops has no answer, and all that waits behind it waits as well; raises `Malformed`."""
    for part in (request.metadata, request.content):
        try:
            json.loads("[" * _SPARE_DEPTH + part.decode("utf-8", "replace") + "]" * _SPARE_DEPTH)
        except (ValueError, RecursionError):
            raise Malformed("a kernel could not read this: it is nested too deeply, or has too long a number") from None
    for name, value in _decode_flat(request.header).items():
        if isinstance(value, str) and _LIKE_A_TIME.match(value) and not (name == "date" and _is_time(value)):
            raise Malformed("the date of a header is an ISO 8601 time, and nothing else in it has that form")


def _is_time(text: str) -> bool:
    try:
        return datetime.fromisoformat(text) is not None and text[11:13] != "24"
    except ValueError:
        return False


def _with(data: bytes, **more: Any) -> bytes:
    """A JSON object with further fields."""
    raw = {name: msgspec.Raw(msgspec.json.encode(value)) for name, value in more.items()}
    return msgspec.json.encode({**(json_object(data) or {}), **raw})


def _header(data: bytes) -> _Header:
    if len(data) > LONGEST_HEADER_BYTES:
        raise Malformed(f"a header has at most {LONGEST_HEADER_BYTES:,} bytes")
    try:
        header = msgspec.convert(_decode_flat(data), _Header)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        raise Malformed(
            "a header is a JSON object of texts and whole numbers, with msg_id, msg_type, session and version"
        ) from None
    if not header.version.startswith("5."):
        raise Malformed("the version of the messages is 5, as 5.3 in their headers")
    if not all(1 <= len(each) <= LONGEST_ID for each in (header.msg_id, header.msg_type, header.session)):
        raise Malformed(f"msg_id, msg_type and session of a header have 1 to {LONGEST_ID} characters")
    return header
