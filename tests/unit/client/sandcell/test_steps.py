"""Operations without I/O: what is asked, what is asked again and what never is."""

from __future__ import annotations

import base64
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import msgspec
import pytest

from sandcell import (
    ConnectionFailed,
    LimitReached,
    NotFound,
    Result,
    StillRunning,
    Unauthorized,
)
from sandcell.errors import error_of
from sandcell.events import RichOutput
from sandcell.models.executions import Death, Execution, ExecutionError
from sandcell.models.model import Page
from sandcell.models.sessions import Session
from sandcell.models.workspaces import FileEntry
from sandcell.operations import administration as a
from sandcell.operations import attach as at
from sandcell.operations import checkpoints as ch
from sandcell.operations import datasets as d
from sandcell.operations import environments as e
from sandcell.operations import files as f
from sandcell.operations import leases as le
from sandcell.operations import programs as pr
from sandcell.operations import replays as r
from sandcell.operations import sessions as o
from sandcell.operations import usage as u
from sandcell.operations import workspaces as w
from sandcell.paging import collect_pages
from sandcell.steps import Answer, Ask, Operation, Pause, decode, quote


def error(status: int, code: str, **details: Any) -> Answer:
    body = {"error": {"code": code, "message": code, "retryable": status in (429, 503), **details}}
    return Answer(status, msgspec.json.encode(body))


def execution(status: str) -> Answer:
    row = {"id": "e", "session_id": "s", "status": status, "language": "python", "code": "x", "generation": 1}
    return Answer(200, msgspec.json.encode({**row, "queued_at": "t"}))


LOST = Answer(lost="the connection was lost")


def drive(operation: Operation[Any], answers: Sequence[Answer]) -> tuple[Any, list[Ask]]:
    """The result of an operation that is given these answers, and what it asked."""
    asked: list[Ask] = []
    left = list(answers)
    try:
        step = next(operation)
        while True:
            if isinstance(step, Pause):
                assert 0 < step.seconds <= 5
                step = operation.send(Answer())
                continue
            assert isinstance(step, Ask)
            asked.append(step)
            step = operation.send(left.pop(0))
    except StopIteration as end:
        assert left == []
        return end.value, asked


def test_a_run_whose_connection_is_lost_is_found_again_by_its_key() -> None:
    answers = [LOST, LOST, execution("running"), execution("running"), execution("ok")]
    result, asked = drive(o.run("s", "x"), answers)
    assert isinstance(result, Result)
    assert result.ok
    assert [ask.method for ask in asked] == ["POST", "POST", "POST", "GET", "GET"]
    keys = {ask.headers["Idempotency-Key"] for ask in asked if ask.method == "POST"}
    assert len(keys) == 1
    assert [ask.json["wait"] for ask in asked[:3]] == [True, False, False]


@pytest.mark.parametrize("start", [o.start_session, partial(o.fork_session, "s")])
def test_a_start_whose_answer_is_lost_is_sent_again_with_its_key(start: Callable[..., Operation[Session]]) -> None:
    session = {"id": "n", "name": "", "status": "READY", "environment": "python", "workspace_id": "n", "generation": 1}
    times = dict.fromkeys(("created_at", "last_activity_at", "expires_at", "idle_expires_at"), "t")
    seconds = {"timeout_seconds": 1, "idle_timeout_seconds": 1}
    answer = Answer(201, msgspec.json.encode({**session, **times, **seconds}))
    for given, wanted in ((None, None), ("of mine", "of mine")):
        started, asked = drive(start(idempotency_key=given), [LOST, LOST, answer])
        assert started.id == "n"
        (key,) = {ask.headers["Idempotency-Key"] for ask in asked}
        assert key == wanted or (wanted is None and len(key) == 36)
        assert len({str(ask.json) for ask in asked}) == 1


def test_a_run_that_is_refused_is_not_sent_again() -> None:
    with pytest.raises(NotFound):
        drive(o.run("s", "x"), [error(404, "not_found")])


def test_a_command_is_never_sent_twice() -> None:
    with pytest.raises(ConnectionFailed):
        drive(o.command("s", "rm -rf x"), [LOST])


def test_a_command_with_a_key_is_asked_for_again_by_it() -> None:
    done = Answer(200, b'{"id": "c", "status": "done", "stdout": "out"}')
    command, asked = drive(o.command("s", "rm -rf x", idempotency_key="mine"), [LOST, done])
    assert command.stdout == "out"
    assert [each.headers["Idempotency-Key"] for each in asked] == ["mine", "mine"]


NEVER_TWICE: dict[str, Operation[Any]] = {
    "restart": o.restart("s"),
    "interrupt": o.interrupt("s"),
    "create_checkpoint": ch.create_checkpoint("s"),
    "undo": ch.undo("s"),
    "take_lease": le.take_lease("s"),
    "give_back_lease": le.give_back_lease("s"),
    "start_program": pr.start_program("s"),
    "send_input": pr.send_input("s", "p", b"rm x"),
    "signal_program": pr.signal_program("s", "p"),
    "create_token": a.create_token("somebody"),
    "rotate_token": a.rotate_token("t"),
    "create_key": a.create_key("somebody"),
    "create_attach_token": at.create_attach_token("s"),
    "create_environment": e.create_environment("mine"),
    "delete_environment": e.delete_environment("mine"),
    "delete_agent": e.delete_agent("mine"),
    "detach_agents": e.detach_agents("mine"),
    "attach_agents": e.attach_agents("mine"),
    "remove_dataset": d.remove_dataset("w", "name"),
    "copy_dataset": d.copy_dataset("w", "name", "other"),
    "delete_workspace": w.delete_workspace("w"),
    "expire_workspaces": u.expire_workspaces(dry_run=False),
    "start_replay": r.start_replay(session_id="s"),
    "workspace_upload": f.workspace_upload("w", "f", b"", if_none_match="*"),
}


@pytest.mark.parametrize("operation", NEVER_TWICE.values(), ids=NEVER_TWICE)
def test_what_would_do_harm_twice_is_never_sent_twice(operation: Operation[Any]) -> None:
    with pytest.raises(ConnectionFailed):
        drive(operation, [LOST])


@pytest.mark.parametrize("change", [o.hibernate, o.resume])
def test_what_is_the_same_when_it_is_asked_for_again_is_sent_again(change: Any) -> None:
    with pytest.raises(NotFound):
        drive(change("s"), [LOST, error(404, "not_found")])


@pytest.mark.parametrize("remove", [f.remove_file, f.workspace_remove, ch.delete_checkpoint])
def test_a_file_that_is_gone_when_its_removal_is_sent_again_was_removed(remove: Any) -> None:
    _, asked = drive(remove("x", "f"), [LOST, error(404, "not_found")])
    assert [ask.method for ask in asked] == ["DELETE", "DELETE"]
    with pytest.raises(NotFound):
        drive(remove("x", "f"), [error(404, "not_found")])


def test_what_only_its_rate_refused_is_sent_again() -> None:
    answers = [error(429, "rate_limited", retry_after_seconds=0.1), execution("ok")]
    result, asked = drive(o.run("s", "x"), answers)
    assert result.ok
    assert len(asked) == 2


def test_a_limit_that_lasts_is_an_error() -> None:
    with pytest.raises(LimitReached) as caught:
        drive(o.start_session(), [error(429, "session_limit", retry_after_seconds=7)])
    assert caught.value.retry_after_seconds == 7


def test_looking_is_tried_again_but_not_for_ever() -> None:
    with pytest.raises(ConnectionFailed):
        drive(o.get_session("s"), [LOST] * 4)


def test_patience_ends_and_names_the_execution() -> None:
    with pytest.raises(StillRunning) as caught:
        drive(o.wait("s", "e", patience_seconds=0), [execution("running")])
    assert caught.value.details["execution_id"] == "e"


def test_pages_of_files_are_joined() -> None:
    first = Page([FileEntry("a", "file", 1, "t")], "more")
    second = Page([FileEntry("b", "file", 1, "t")])
    answers = [Answer(200, msgspec.json.encode(page)) for page in (first, second)]
    files, asked = drive(f.files("s", "d/ü", recursive=True), answers)
    assert [each.path for each in files] == ["a", "b"]
    assert asked[0].address == "/v1/sessions/s/files?path=d/%C3%BC&recursive=true"
    assert asked[1].query["cursor"] == "more"


def test_an_answer_from_something_else_is_still_an_error() -> None:
    found = error_of(502, b"<html>bad gateway</html>")
    assert (found.status, found.code) == (502, "")
    assert isinstance(error_of(401, b""), Unauthorized)


def test_names_that_are_not_utf8_come_back_as_they_are() -> None:
    assert decode(b'{"path":"\\udcff","kind":"file","size":1,"modified_at":"t"}', FileEntry).path == "\udcff"
    assert quote("a b/\udcff\n") == "a%20b/%FF%0A"
    assert quote("../x") == "%2E%2E/x"


def test_the_text_of_a_result_is_what_a_person_reads() -> None:
    outputs: list[dict[str, Any]] = [
        {"output_type": "stream", "name": "stdout", "text": ["a\n", "b\n"]},
        {"output_type": "stream", "name": "stderr", "text": "warning\n"},
        {"output_type": "execute_result", "data": {"text/plain": "42", "text/html": "<b>42</b>"}},
        {"output_type": "display_data", "data": {"text/plain": "<Figure>", "image/png": "iVBORw0K"}},
    ]
    row = Execution("e", "s", "ok", "python", "x", 1, "t", outputs=outputs)
    result = Result(row)
    assert result.text == "a\nb\n42\n<Figure>"
    assert [display.extension for display in result.displays] == ["png"]


def test_what_is_printed_of_a_result_names_its_pictures_and_does_not_hold_them() -> None:
    picture = base64.encodebytes(bytes(range(256)) * 40).decode()
    table = {"text/plain": "a", "text/html": "<b>a</b>", "application/json": {"a": 1}}
    outputs: list[dict[str, Any]] = [
        {"output_type": "stream", "name": "stdout", "text": "x" * 5_000},
        {"output_type": "display_data", "data": {"text/plain": "<Figure>", "image/png": picture}},
        {"output_type": "display_data", "data": table},
    ]
    row = Execution("e", "s", "error", "python", "x", 1, "t", outputs=outputs, error=ExecutionError("E", "why", []))
    shown = str(Result(row))
    assert shown == repr(Result(row))
    assert shown.startswith("<Result error: 'xxxx")
    assert shown.endswith("...', image/png of 10,240 bytes, text/html of 8 bytes, application/json of 7 bytes, E: why>")
    assert len(shown) < 1_200
    assert repr(Result(row).plots) == "[<Display image/png, 10,240 bytes>]"
    sizes = "text/plain of 1 bytes, text/html of 8 bytes, application/json of 7 bytes"
    assert repr(RichOutput("result", table, {})) == f"<RichOutput result: {sizes}>"
    blank = Execution("e", "s", "died", "python", "x", 1, "t", death=Death("oom", "out of memory"))
    assert repr(Result(blank)) == "<Result died: '', oom: out of memory>"


@pytest.mark.parametrize(
    ("most", "found", "asked"),
    [(None, "abcde", [None, "2", "4"]), (9, "abcde", [None, "2", "4"]), (3, "abc", [None, "2"]), (2, "ab", [None])],
)
def test_a_list_is_asked_for_until_it_ends_or_is_enough(most: int | None, found: str, asked: list[str | None]) -> None:
    pages = [
        Answer(200, msgspec.json.encode({"items": [{"id": each, "created_at": ""} for each in ids], "next_cursor": at}))
        for ids, at in [("ab", "2"), ("cd", "4"), ("e", None)]
    ]
    items, asks = drive(collect_pages(lambda cursor: w.list_workspaces(cursor=cursor), most), pages[: len(asked)])
    assert ("".join(each.id for each in items), [each.query.get("cursor") for each in asks]) == (found, asked)
