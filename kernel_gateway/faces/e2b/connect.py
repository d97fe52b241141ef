"""The Connect protocol with JSON, as envd speaks it: envelopes of a flag byte, four of length, and a message. Pure."""

from __future__ import annotations

import base64
import binascii
import struct
from typing import Any, Final

import msgspec

from kernel_gateway.errors import GatewayError, InvalidRequest
from kernel_gateway.faces.e2b.errors import describe
from kernel_gateway.faces.json_bodies import decode, encode

STREAM: Final = "application/connect+json"
_END: Final = 2
_HEAD: Final = struct.Struct(">BI")


def wrap(message: Any) -> bytes:
    """A message of a stream."""
    content = encode(message)
    return _HEAD.pack(0, len(content)) + content


def end(error: GatewayError | None = None) -> bytes:
    """The end of a stream."""
    content = encode({} if error is None else {"error": describe(error, "rpc")})
    return _HEAD.pack(_END, len(content)) + content


def unwrap(body: bytes, of: Any) -> list[Any]:
    """The messages of a stream that has come whole; raises InvalidRequest."""
    found, at = [], 0
    while at < len(body):
        if len(body) - at < _HEAD.size:
            raise InvalidRequest("the body ends within an envelope")
        flags, size = _HEAD.unpack_from(body, at)
        at += _HEAD.size
        if flags == _END:
            break
        if flags or size > len(body) - at:
            raise InvalidRequest("the body is no sequence of uncompressed envelopes")
        found.append(decode(bytes(body[at : at + size]), of))
        at += size
    return found


def read_bytes(text: str) -> bytes:
    """Bytes as they stand in JSON; raises InvalidRequest."""
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error:
        raise InvalidRequest("bytes are sent as base64") from None


def read_user(authorization: str) -> str:
    """The user that a call is made as, empty when none is named."""
    scheme, _, value = authorization.partition(" ")
    if scheme.lower() != "basic":
        return ""
    try:
        return base64.b64decode(value, validate=True).decode().partition(":")[0]
    except (binascii.Error, UnicodeDecodeError):
        raise InvalidRequest("the header Authorization is no user in base64") from None


class Message(msgspec.Struct, rename="camel"):
    """A message; fields that are not known are left out of account, as the protocol has it."""
