"""JSON-RPC as it comes: what is a message, and what is refused with which code."""

from __future__ import annotations

import pytest

from sandcell.mcp import messages
from sandcell.mcp.messages import Notification, Request, RpcError


def test_messages() -> None:
    assert messages.parse(b'{"jsonrpc":"2.0","id":"a","method":"ping"}') == Request("a", "ping", {})
    assert messages.parse(b'{"jsonrpc":"2.0","method":"n","params":{"a":1}}') == Notification("n", {"a": 1})
    assert messages.parse(b'{"jsonrpc":"2.0","id":1,"result":{}}') == Notification("", {})


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"{", messages.PARSE_ERROR),
        (b"\xff", messages.PARSE_ERROR),
        (b"[" * 100_000, messages.PARSE_ERROR),
        (b"[]", messages.INVALID_REQUEST),
        (b"1", messages.INVALID_REQUEST),
        (b'{"jsonrpc":"1.0","id":1,"method":"a"}', messages.INVALID_REQUEST),
        (b'{"jsonrpc":"2.0","id":1,"method":1}', messages.INVALID_REQUEST),
        (b'{"jsonrpc":"2.0","id":1,"method":"a","params":[]}', messages.INVALID_REQUEST),
        (b'{"jsonrpc":"2.0","id":true,"method":"a"}', messages.INVALID_REQUEST),
        (b'{"jsonrpc":"2.0","id":null,"method":"a"}', messages.INVALID_REQUEST),
        (b'{"jsonrpc":"2.0","id":"%s","method":"a"}' % (b"a" * 257), messages.INVALID_REQUEST),
    ],
)
def test_what_is_none(data: bytes, code: int) -> None:
    with pytest.raises(RpcError) as raised:
        messages.parse(data)
    assert raised.value.code == code
