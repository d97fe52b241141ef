"""Messages of attached clients: what passes keeps its header byte for byte, all else is refused with a reason."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernels.wire.client_request import ALLOWED, ClientRequest, check_client_request, find_answerable, prepare_cell
from kernels.wire.message import Malformed, Signer, compose

ABOUT = {"msg_id": "m", "msg_type": "execute_request", "session": "s", "username": "ann", "version": "5.3"}


def header(**changes: Any) -> bytes:
    return json.dumps({**ABOUT, **changes}).encode()


def execute(content: dict[str, Any], **changes: Any) -> ClientRequest:
    return check_client_request("shell", header(**changes), json.dumps(content).encode(), metadata=b'{"cellId": "c"}')


@given(st.sampled_from([*ALLOWED, "iopub", ""]), st.binary(max_size=40), st.binary(max_size=40), st.binary(max_size=40))
def test_any_bytes_are_refused_with_a_reason(channel: str, one: bytes, two: bytes, three: bytes) -> None:
    with pytest.raises(Malformed):
        check_client_request(channel, one, two, metadata=three)


@given(st.text(max_size=200), st.booleans(), st.booleans())
def test_a_cell_keeps_its_header_and_its_code_and_empties_no_queue(code: str, silent: bool, stop: bool) -> None:
    request = execute({"code": code, "silent": silent, "stop_on_error": stop, "user_expressions": {"a": "b"}})
    found, prepared = prepare_cell(request)
    assert found == code
    assert prepared.header == request.header
    assert (prepared.silent, prepared.stop_on_error) == (silent, stop)
    content = json.loads(prepared.content)
    assert content == {**json.loads(request.content), "stop_on_error": False}
    assert json.loads(prepared.metadata)["cellId"] == "c"


WHATEVER = st.one_of(st.none(), st.text(max_size=3), st.integers(), st.booleans(), st.sampled_from(["execute_request"]))


@given(st.sampled_from([*ALLOWED, "iopub"]), st.dictionaries(st.sampled_from([*ABOUT, "date"]), WHATEVER))
def test_a_header_that_is_answered_can_be_repeated(channel: str, changes: dict[str, Any]) -> None:
    msg_type = find_answerable(channel, header(**changes))
    if msg_type is not None:
        assert msg_type in ALLOWED[channel]
        compose("x_reply", {}, session="s", parent=header(**changes))


@pytest.mark.parametrize(
    ("channel", "sent", "answerable"),
    [
        ("shell", header(session=""), True),
        ("shell", b'{"msg_id": "m", "msg_type": "execute_request"}', True),
        ("shell", header(version="6"), True),
        ("control", header(), False),
        ("shell", header(session=3), False),
        ("shell", header(msg_id=""), False),
        ("shell", header(msg_id="x" * 300), False),
        ("shell", header(username="x" * 20_000), False),
        ("shell", header(msg_type="comm_msg"), False),
        ("shell", b"[]", False),
        ("shell", b"\xff", False),
    ],
)
def test_a_request_that_can_be_told_for_one_is_answered(channel: str, sent: bytes, *, answerable: bool) -> None:
    assert (find_answerable(channel, sent) is not None) == answerable


def test_no_two_cells_have_one_signature() -> None:
    request, signer = execute({"code": "1"}), Signer(b"key")
    signatures = {signer.sign(prepare_cell(request)[1].parts)[1] for _ in range(3)}
    assert len(signatures) == 3


@pytest.mark.parametrize(
    "changes",
    [
        {"msg_id": ""},
        {"session": "x" * 257},
        {"version": "4.1"},
        {"version": None},
        {"date": 1.5},
        {"more": {"nested": 1}},
        {"more": "x" * 20_000},
    ],
)
def test_a_header_that_a_kernel_could_not_repeat_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(Malformed):
        execute({"code": "1"}, **changes)


@pytest.mark.parametrize(
    "content", [{}, {"code": None}, {"code": "1", "allow_stdin": 1}, {"code": "1", "silent": None}]
)
def test_a_cell_that_a_kernel_would_drop_is_refused(content: dict[str, Any]) -> None:
    with pytest.raises(Malformed):
        prepare_cell(execute(content))


@pytest.mark.parametrize(
    "changes",
    [
        {"date": "2026-13-01T00:00:00Z"},
        {"date": "2026-01-01T24:00:00Z"},
        {"date": "2026-01-01T00:00:00+99:99"},
        {"msg_id": "2026-01-01T00:00:00Z"},
        {"session": "2026-01-01T00:00:00.5"},
        {"username": "2026-13-01T00:00:00Z"},
    ],
)
def test_a_cell_whose_header_a_kernel_would_read_as_a_wrong_time_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(Malformed, match="ISO 8601"):
        prepare_cell(execute({"code": "1"}, **changes))


@pytest.mark.parametrize("date", ["2026-01-01T00:00:00.000Z", "2026-01-01T00:00:00.123456+00:00", "", "yesterday"])
def test_dates_that_clients_send_are_taken(date: str) -> None:
    assert prepare_cell(execute({"code": "1"}, date=date))[0] == "1"


@pytest.mark.parametrize("value", [b"9" * 5_000, b"[" * 900 + b"]" * 900], ids=["number", "nested"])
def test_a_cell_that_a_kernel_could_not_read_is_refused(value: bytes) -> None:
    odd = b'{"code": "1", "odd": ' + value + b"}"
    for content, metadata in ((odd, b"{}"), (b'{"code": "1"}', odd)):
        with pytest.raises(Malformed, match="could not read"):
            prepare_cell(check_client_request("shell", header(), content, metadata=metadata))


def test_a_cell_takes_nothing_along_from_the_message_that_it_answers() -> None:
    odd = b'{"any": ["2026-13-01T00:00:00Z"]}'
    asked = check_client_request("shell", header(), b'{"code": "1"}', parent_header=odd)
    assert prepare_cell(asked)[1].parent_header == b"{}"
