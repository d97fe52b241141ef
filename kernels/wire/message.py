"""Jupyter messages on the wire: signed frames to `Message` and back. Pure.

Format: https://jupyter-client.readthedocs.io/en/stable/messaging.html, version 5.3. Everything a kernel sends is
hostile: what is not a well-formed, signed message is refused here and never reaches a subscriber.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from kernels.json_values import more_values_than
from kernels.random_ids import new_hex

DELIMITER: Final = b"<IDS|MSG>"
MOST_VALUES: Final = 250_000
"""Values in the content of a message that is decoded here; they take a hundred bytes each."""
LENIENT_BYTES: Final = 8 * 1024 * 1024
"""The longest content that is decoded although it is not strict JSON, which is slow."""
_LONGEST_ROUTE: Final = 8
_SHA256_BLOCK: Final = 64
"""Bytes that the hash takes at a time, as HMAC asks for a key."""
_SHORT_BYTES: Final = 16 * 1024
"""Parts of a message that are copied together to be signed at once."""


class Malformed(Exception):
    """These frames are no message of this kernel; the text says why."""


class Header(msgspec.Struct):
    """The fields of a header that decide where a message goes."""

    msg_id: str = ""
    msg_type: str = ""
    session: str = ""


class Message:
    """One verified message. The parts stay as they came (`header_json`, ...), to be passed on without a copy.

    `size_bytes` is what all its frames hold together. `parent_session` is the session of who asked, `parent_type` what.
    """

    __slots__ = (
        "_content",
        "_frames",
        "_outgrown",
        "msg_id",
        "msg_type",
        "parent_id",
        "parent_session",
        "parent_type",
        "size_bytes",
    )

    def __init__(self, header: Header, parent: Header, frames: list[bytes]) -> None:
        self.msg_id = header.msg_id
        self.msg_type = header.msg_type
        self.parent_id = parent.msg_id
        self.parent_session = parent.session
        self.parent_type = parent.msg_type
        self.size_bytes = sum(map(len, frames))
        self._frames = frames
        self._content: dict[str, Any] | None = None
        self._outgrown: bool | None = None

    @property
    def header_json(self) -> bytes:
        return self._frames[0]

    @property
    def parent_json(self) -> bytes:
        return self._frames[1]

    @property
    def metadata_json(self) -> bytes:
        return self._frames[2]

    @property
    def content_json(self) -> bytes:
        return self._frames[3]

    @property
    def buffers(self) -> Sequence[bytes]:
        return self._frames[4:]

    @property
    def parts(self) -> Sequence[bytes]:
        """Header, parent header, metadata, content, and what buffers there are."""
        return self._frames

    @property
    def frames(self) -> int:
        return len(self._frames)

    @property
    def outgrown(self) -> bool:
        """Whether the content holds too many values to be decoded here."""
        if self._outgrown is None:
            self._outgrown = more_values_than(MOST_VALUES, self.content_json)
        return self._outgrown

    @property
    def content(self) -> dict[str, Any]:
        """The content as a JSON object; empty when it is none, or has outgrown what is decoded."""
        if self._content is None:
            self._content = {} if self.outgrown else _object(self.content_json)
        return self._content


class Signer:
    """Signs and verifies with one kernel's key (HMAC-SHA256, as in its connection file)."""

    def __init__(self, key: bytes, *, lasting: bool = False) -> None:
        """`lasting`: the session is the same for whoever comes with this key."""
        # As HMAC is defined, with the key taken in once: a library's call for each message takes three times as long.
        block = (key if len(key) <= _SHA256_BLOCK else hashlib.sha256(key).digest()).ljust(_SHA256_BLOCK, b"\0")
        self._inner = hashlib.sha256(bytes(each ^ 0x36 for each in block))
        self._outer = hashlib.sha256(bytes(each ^ 0x5C for each in block))
        self.session = hmac.digest(key, b"session", "sha256").hex()[:32] if lasting else new_hex()
        self.stream = hmac.digest(key, b"stream", "sha256").hex()[:32]
        """What all that is signed with this key is known by."""

    def request(self, msg_type: str, content: dict[str, Any]) -> tuple[str, list[bytes]]:
        """A new message of this client: its id and its frames."""
        msg_id = new_hex()
        header = _build_header(msg_id, msg_type, self.session)
        return msg_id, self.sign([header, b"{}", b"{}", msgspec.json.encode(content)])

    def sign(self, parts: Sequence[bytes]) -> list[bytes]:
        """The frames of a message: header, parent header, metadata, content, and what buffers there are."""
        return [DELIMITER, self._signature(parts[:4]), *parts]

    def parse(self, frames: list[bytes]) -> Message:
        """The message in these frames; raises `Malformed`."""
        try:
            start = frames.index(DELIMITER, 0, _LONGEST_ROUTE) + 1
        except ValueError:
            raise Malformed("no delimiter") from None
        parts = frames[start + 1 :]
        if len(parts) < 4:
            raise Malformed("a part is missing")
        if not hmac.compare_digest(self._signature(parts[:4]), frames[start]):
            raise Malformed("the signature is wrong")
        return Message(header_of(parts[0]), header_of(parts[1]), parts)

    def _signature(self, parts: Sequence[bytes]) -> bytes:
        inner, outer = self._inner.copy(), self._outer.copy()
        if sum(map(len, parts)) <= _SHORT_BYTES:  # one call for the most messages, which are short
            inner.update(b"".join(parts))
        else:
            for part in parts:
                inner.update(part)
        outer.update(inner.digest())
        return outer.hexdigest().encode()


def compose(msg_type: str, content: dict[str, Any], *, session: str, parent: bytes = b"{}") -> Message:
    """A message that no kernel sent, in answer to the one with the header `parent`."""
    header = Header(new_hex(), msg_type, session)
    parts = [_build_header(header.msg_id, msg_type, session), parent, b"{}", msgspec.json.encode(content)]
    return Message(header, header_of(parent), parts)


def _build_header(msg_id: str, msg_type: str, session: str) -> bytes:
    fields = {
        "msg_id": msg_id,
        "msg_type": msg_type,
        "username": "sandcell",
        "session": session,
        "date": datetime.now(UTC).isoformat(),
        "version": "5.3",
    }
    return msgspec.json.encode(fields)


_decode_header: Final = msgspec.json.Decoder(Header).decode


def header_of(data: bytes) -> Header:
    """Id and type in a header; raises `Malformed`."""
    try:
        return _decode_header(data)
    except (msgspec.MsgspecError, RecursionError, UnicodeError) as error:
        raise Malformed(f"a header is no header: {type(error).__name__}") from None


def read_unverified_parent(frames: list[bytes]) -> str:
    """The parent's id in the first frames of a message that was too large to read whole, or nothing."""
    try:
        return header_of(frames[frames.index(DELIMITER) + 3]).msg_id
    except (ValueError, IndexError, Malformed):
        return ""


def json_object(data: bytes) -> dict[str, Any] | None:
    """The fields of a JSON object, their values undecoded (`msgspec.Raw`); None when it is none."""
    try:
        return msgspec.json.decode(data, type=dict[str, msgspec.Raw])
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return None


def _object(data: bytes) -> dict[str, Any]:
    try:
        value = msgspec.json.decode(data)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        value = _parse_leniently(data)
    return value if isinstance(value, dict) else {}


def _parse_leniently(data: bytes) -> Any:
    """What strict JSON refuses and kernels send all the same: NaN, half surrogate pairs, bytes that are not UTF-8."""
    if len(data) > LENIENT_BYTES:
        return None
    try:
        return json.loads(data.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return None
