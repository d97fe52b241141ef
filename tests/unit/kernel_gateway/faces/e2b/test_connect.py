"""Envelopes of the Connect protocol, and who a call is made as."""

from __future__ import annotations

import base64
import struct
from typing import Any

import pytest

from kernel_gateway.errors import InvalidRequest
from kernel_gateway.faces.e2b import connect
from kernel_gateway.faces.e2b.errors import SandboxGone


def test_messages_come_out_as_they_went_in() -> None:
    body = connect.wrap({"a": 1}) + connect.wrap({"b": "é"}) + connect.end()
    assert connect.unwrap(body, dict[str, Any]) == [{"a": 1}, {"b": "é"}]
    assert body[:5] == struct.pack(">BI", 0, 7)


def test_an_end_says_what_went_wrong() -> None:
    end = connect.end(SandboxGone("x"))
    assert end[0] == 2
    assert end[5:] == b'{"error":{"code":"unavailable","message":"The sandbox was not found"}}'


@pytest.mark.parametrize(
    "body", [b"\0\0", struct.pack(">BI", 0, 100) + b"{}", struct.pack(">BI", 1, 2) + b"{}", b"\0\0\0\0\2{,"]
)
def test_what_is_no_stream_is_refused(body: bytes) -> None:
    with pytest.raises(InvalidRequest):
        connect.unwrap(body, dict[str, Any])


def test_users() -> None:
    named = "Basic " + base64.b64encode(b"root:").decode()
    assert [connect.read_user(each) for each in ("", "Bearer x", named)] == ["", "", "root"]
    for wrong in ("Basic !", "Basic " + base64.b64encode(b"\xff").decode()):
        with pytest.raises(InvalidRequest):
            connect.read_user(wrong)
