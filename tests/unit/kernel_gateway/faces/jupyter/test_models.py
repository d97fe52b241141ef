"""What clients are shown, what stands in for what would cut them off, and where a token is found."""

from __future__ import annotations

import json
import re
from datetime import datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel_gateway.errors import InvalidRequest
from kernel_gateway.faces.calls import parse_query
from kernel_gateway.faces.jupyter import delivery, framing, models
from kernel_gateway.faces.jupyter.calls import MOST_TITLES, Face
from kernel_gateway.faces.jupyter.credentials import find_client_session, find_token
from kernel_gateway.faces.jupyter.models import Title
from kernel_gateway.faces.jupyter.routes import TABLE, find_address
from kernel_gateway.faces.routing import Address
from kernel_gateway.services.clock import rfc3339
from kernels.wire.message import Message, header_of
from sandcell.models.environments import EnvironmentInfo
from sandcell.models.network import Network
from sandcell.models.sessions import Ended, Session

ID = "3fb56bb8-5332-49b3-947d-1de26539aa73"


def session(**fields: Any) -> Session:
    told = {"created_at": "", "last_activity_at": rfc3339(0), "expires_at": "", "idle_expires_at": ""}
    told |= {"id": ID, "name": "", "status": "READY", "environment": "python", "workspace_id": "w", "generation": 1}
    return Session(**{**told, "timeout_seconds": 1, "idle_timeout_seconds": 1, **fields})


def environment(name: str) -> EnvironmentInfo:
    return EnvironmentInfo(name, "", "", 1, 1.0, 1, Network(), id=name)


def message(channel_type: str, content: bytes, buffers: tuple[bytes, ...] = ()) -> Message:
    header = json.dumps({"msg_id": "m", "msg_type": channel_type, "session": "k", "date": "now"}).encode()
    parent = b'{"msg_id": "p", "msg_type": "execute_request", "session": "c"}'
    return Message(header_of(header), header_of(parent), [header, parent, b"{}", content, *buffers])


def frame_legacy(channel: str, told: Message, where: str) -> bytes | None:
    pieces = delivery.frame_legacy(channel, told, where)
    return None if pieces is None else b"".join(pieces)


@given(st.floats(0, 4e9))
def test_last_activity_is_what_the_clients_parse(moment: float) -> None:
    shown = models.describe_kernel(session(last_activity_at=rfc3339(moment)), "idle", 0)["last_activity"]
    assert datetime.strptime(shown, "%Y-%m-%dT%H:%M:%S.%fZ")  # noqa: DTZ007 - as the clients parse it
    assert len(shown) == len("2026-01-01T00:00:00.000000Z")


def test_a_dead_kernel_says_why() -> None:
    ended = Ended("ttl", "its time-to-live was over", rfc3339(1))
    shown = models.describe_dead_kernel(session(status="TERMINATED", ended=ended))
    assert shown["execution_state"] == "dead"
    assert "its time-to-live was over" in shown["reason"]


@pytest.mark.parametrize(("names", "default"), [(["data", "python"], "python"), (["data"], "data"), ([], "python")])
def test_the_default_kernelspec_is_one_that_there_is(names: list[str], default: str) -> None:
    described = [models.describe_kernelspec(environment(name), debugger=False) for name in names]
    assert models.list_kernelspecs(described, "python")["default"] == default


def test_a_session_without_a_name_has_a_title_all_the_same() -> None:
    assert models.make_title(session()).path == "sandcell 3fb56bb8"
    assert models.make_title(session(name="Q3")).path == "Q3"


def test_titles_are_bounded() -> None:
    face = Face(services=None)  # type: ignore[arg-type]
    for number in range(MOST_TITLES + 5):
        face.entitle(str(number), Title("p", "n"))
    assert len(face.titles) == MOST_TITLES
    assert "0" not in face.titles


def test_a_large_output_is_a_word_on_stderr_to_a_legacy_client() -> None:
    large = message("display_data", b'{"data": "' + b"x" * framing.LEGACY_BYTES + b'"}')
    frame = frame_legacy("iopub", large, "look there")
    assert frame is not None
    told = json.loads(frame)
    assert (told["channel"], told["msg_type"], told["header"]["msg_type"]) == ("iopub", "stream", "stream")
    assert told["content"]["name"] == "stderr"
    assert "look there" in told["content"]["text"]
    assert told["parent_header"]["session"] == "c"


@pytest.mark.parametrize(("channel", "msg_type"), [("shell", "history_reply"), ("stdin", "input_request")])
def test_a_large_reply_is_a_reply_all_the_same(channel: str, msg_type: str) -> None:
    large = message(msg_type, b'{"data": "' + b"x" * framing.LEGACY_BYTES + b'"}')
    told = json.loads(frame_legacy(channel, large, "look there") or b"")
    assert (told["channel"], told["header"]["msg_type"]) == (channel, msg_type)
    assert "too large" in json.dumps(told["content"])


def test_large_buffers_alone_do_not_matter_to_a_legacy_client() -> None:
    frame = frame_legacy("iopub", message("comm_msg", b"{}", (b"\xff" * framing.LEGACY_BYTES,)), "")
    assert json.loads(frame or b"")["buffers"] == []


def test_a_frame_that_grows_too_large_is_replaced_too() -> None:
    """What is mended is longer than it was."""
    almost = message("display_data", b'{"data": "' + b"\xff" * (7 << 20) + b'"}')
    frame = frame_legacy("iopub", almost, "")
    assert frame is not None
    assert len(frame) < 10_000


@pytest.mark.parametrize(
    ("header", "query", "token"),
    [
        ("token T", {}, "T"),
        ("Token  T ", {}, "T"),
        ("bearer T", {"token": "other"}, "T"),
        ("token ", {"token": "T"}, "T"),
        ("", {"token": "T"}, "T"),
        ("Basic T", {"token": "other"}, ""),
        ("", {}, ""),
    ],
)
def test_where_a_token_is_found(header: str, query: dict[str, str], token: str) -> None:
    assert find_token(header, query) == token


@given(st.text(max_size=300))
def test_any_query_is_read_or_refused(query: str) -> None:
    try:
        found = parse_query(query)
    except InvalidRequest:
        return
    assert all(isinstance(value, str) for value in found.values())


@pytest.mark.parametrize("name", ["x" * 129, "ü", "a\nb"])
def test_a_client_session_is_short_and_printable(name: str) -> None:
    with pytest.raises(InvalidRequest):
        find_client_session({"session_id": name}, "otherwise")


def test_a_client_without_a_session_gets_one() -> None:
    assert find_client_session({"session_id": ""}, "otherwise") == "otherwise"


def test_every_route_is_found_at_its_address() -> None:
    for route in TABLE:
        path = re.sub(r"\{\w+\}", "x", route.path)
        found = find_address(path)
        assert found.routes[route.method] is route
        assert find_address(path + "/") == found
        assert find_address(path.replace("x", "x" * 128 + "x")) == Address() or "x" not in path


def test_events_of_the_audit_log_have_one_name_each() -> None:
    names = [route.event for route in TABLE]
    assert len(set(names)) == len(names)
