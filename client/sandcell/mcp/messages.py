"""JSON-RPC 2.0 as MCP uses it: messages in, results and errors out. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import msgspec

PARSE_ERROR: Final = -32700
INVALID_REQUEST: Final = -32600
METHOD_NOT_FOUND: Final = -32601
INVALID_PARAMS: Final = -32602
INTERNAL_ERROR: Final = -32603
RESOURCE_NOT_FOUND: Final = -32002
CANCELLED: Final = -32800
"""What LSP says of a request that was cancelled; JSON-RPC has no word for it."""
LONGEST_ID: Final = 256
"""A request's id, in characters."""
VERSIONS: Final = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
"""Revisions of the protocol that are spoken, oldest first."""
Id = str | int


class RpcError(Exception):
    """What is answered in place of a result."""

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.data = data


@dataclass(frozen=True)
class Request:
    """A call that wants an answer."""

    id: Id
    method: str
    params: dict[str, Any]


@dataclass(frozen=True)
class Notification:
    """A message that wants none; what the peer answers to us is one as well, of no method."""

    method: str
    params: dict[str, Any]


Message = Request | Notification


def parse(data: bytes | bytearray) -> Message:
    """A message; raises RpcError for what is none."""
    try:
        value = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise RpcError(PARSE_ERROR, "the message is not JSON") from None
    if isinstance(value, list):
        raise RpcError(INVALID_REQUEST, "messages are sent one by one, not in a batch")
    if not isinstance(value, dict) or value.get("jsonrpc") != "2.0":
        raise RpcError(INVALID_REQUEST, "the message is no JSON-RPC 2.0")
    if "method" not in value and ("result" in value or "error" in value):
        return Notification("", {})
    method, params = value.get("method"), value.get("params")
    if not isinstance(method, str) or not isinstance(params, dict | None):
        raise RpcError(INVALID_REQUEST, "the message has no method, or params that are no object")
    if "id" not in value:
        return Notification(method, params or {})
    found = value["id"]
    if isinstance(found, bool) or not isinstance(found, str | int) or len(str(found)) > LONGEST_ID:
        raise RpcError(INVALID_REQUEST, "an id is a string or a whole number")
    return Request(found, method, params or {})


def make_result(request_id: Id, result: dict[str, Any]) -> dict[str, Any]:
    """The answer to a request."""
    return {"jsonrpc": "2.0", "id": request_id, "result": result}


def make_error(request_id: Id | None, error: RpcError) -> dict[str, Any]:
    """The answer to a request that failed; without an id when it could not be read."""
    about = {"code": error.code, "message": error.message}
    return {"jsonrpc": "2.0", "id": request_id, "error": about | ({} if error.data is None else {"data": error.data})}


def make_notification(method: str, params: dict[str, Any]) -> dict[str, Any]:
    """A message to the peer that wants no answer."""
    return {"jsonrpc": "2.0", "method": method, "params": params}


def encode(message: dict[str, Any]) -> bytes:
    """A message as JSON, on one line."""
    return msgspec.json.encode(message)
