"""Every list that goes on with a cursor refuses what no list gave."""

from __future__ import annotations

import base64

import httpx
import pytest

from kernel_gateway.faces.rest.table import TABLE

LISTS = [
    route.path for route in TABLE if route.method == "GET" and "cursor" in getattr(route.query, "__struct_fields__", ())
]
NONSENSE = (
    "",
    "made-up",
    "!!!!",
    "MQ!",
    "MQ%20",
    "=",
    "%00",
    "-1",
    base64.urlsafe_b64encode(b"\xff\xfe").decode() + "x",
)
NO_NUMBERS = (b"1_0", b" 1", b"-1", b"+1", "\u0661".encode(), b"9" * 30, b"1.0", b"x")
BY_NAME = ("/files", "/usage", "/principals")
"""Lists by path or name, whose cursors may stand for any text."""


@pytest.mark.parametrize("path", LISTS)
def test_no_list_goes_on_from_nonsense(http: httpx.Client, session_id: str, path: str) -> None:
    session = http.get(f"/v1/sessions/{session_id}").json()
    address = path.format(session_id=session_id, workspace_id=session["workspace_id"], environment_id="python")
    assert http.get(address).status_code == 200
    numbers = () if path.endswith(BY_NAME) else NO_NUMBERS
    for cursor in (*NONSENSE, *(base64.urlsafe_b64encode(each).decode() for each in numbers)):
        answer = http.get(f"{address}?cursor={cursor}")
        assert (answer.status_code, answer.json()["error"]["code"]) == (400, "invalid_request"), cursor
