"""How a replay goes: where it stops, which session it runs in, who may look at it and stop it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from sandcell import AsyncClient, Client, Conflict, InvalidRequest, LimitReached, NotFound
from tests.integration.kernel_gateway.server.eventually import eventually
from tests.integration.kernel_gateway.services.replays.conftest import code, notebook, on, result, stream, verdicts
from tests.running_service import RunningService

SLEEPS = notebook(
    code("print('begun')", stream("begun\n")), code("import time\ntime.sleep(60)"), code("1", result("1"))
)


def test_it_stops_at_the_first_difference(client: Client) -> None:
    noisy = code("print(object())", stream("<object object at 0x7f3a2c1b4d90>\n"))
    given = notebook(noisy, code("1", result("1")), noisy, code("2", result("3")), code("4", result("4")))
    live = {session.id for session in client.list_sessions(status="READY").items}  # other tests', on the same service
    replay = client.replay(given, stop_on_difference=True)
    assert verdicts(replay) == {1: "same", 2: "same", 3: "same", 4: "different", 5: "not_run"}
    assert "first difference, which is cell 4" in on(replay, 5).why
    assert [event.event for event in client.replay_events(replay.id)].count("again") == 1
    assert {session.id for session in client.list_sessions(status="READY").items} <= live


def test_it_stops_after_a_cell_and_the_session_stays_to_be_looked_at_and_continued(client: Client) -> None:
    given = notebook(code("x = 1"), code("x += 1"), code("x += 40"), code("x", result("42")))
    replay = client.replay(given, until=2)
    assert verdicts(replay) == {1: "same", 2: "same", 3: "not_run", 4: "not_run"}
    assert (replay.same, replay.session_live) == (True, True)
    session = client.attach(replay.session_id or "")
    assert session.run("x").text == "2"
    rest = client.replay(notebook(code("x += 40"), code("x", result("42"))), continue_session=session.id)
    assert (rest.same, rest.session_id, rest.session_live) == (True, session.id, True)
    assert session.run("x").text == "42"
    session.stop()
    with pytest.raises(Conflict) as caught:
        client.replay(given, continue_session=session.id)
    assert caught.value.code == "session_terminated"


def test_it_starts_with_a_copy_of_a_workspace(client: Client) -> None:
    with client.session() as session:
        session.upload("data/in.csv", b"1,2\n")
        given = notebook(code("print(open('data/in.csv').read())", stream("1,2\n\n")), code("open('new', 'w').close()"))
        replay = client.replay(given, inputs=session.info.workspace_id)
        assert replay.same, replay.verdicts
        assert [each.path for each in session.files(recursive=True)] == ["data", "data/in.csv"]
    copied = client.get_session(replay.session_id or "").workspace_id
    assert [each.path for each in client.workspace_files(copied)] == ["data", "data/in.csv", "new"]


def test_an_ended_session_comes_back(client: Client) -> None:
    with client.session(name="first") as session:
        session.upload("kept.txt", b"kept")
        session.run("import random\nx = 41")
        session.run("random.random()")
        session.run("open('kept.txt').read()")
    with client.session(replay_of=session.id, name="again") as again:
        assert (again.info.status, again.info.name, again.info.environment) == ("READY", "again", "python")
        assert again.run("x, open('kept.txt').read()").text == "(41, 'kept')"
        written = json.loads(again.notebook())
    (note,) = [cell["source"] for cell in written["cells"] if session.id in cell["source"]]
    assert "2 of its 3 cells" in note
    assert "different" in note
    with pytest.raises(NotFound):
        client.start_session(replay_of="no-such-session")


def test_a_caller_who_leaves_stops_nothing_and_delete_stops_it(service: RunningService, client: Client) -> None:
    body = json.dumps({"notebook": json.loads(SLEEPS)})
    headers = {"Authorization": f"Bearer {service.token}", "Accept": "text/event-stream"}
    headers["Content-Type"] = "application/json"
    found: dict[str, Any] = {}
    with httpx.stream(
        "POST", f"{service.url}/v1/notebooks/replay", content=body, headers=headers, timeout=120
    ) as answer:
        assert answer.headers["Content-Type"] == "text/event-stream"
        for line in answer.iter_lines():
            if line.startswith("data:"):
                found |= json.loads(line.removeprefix("data:"))
            if found.get("number") == 2:
                break
    replay = client.get_replay(found["replay_id"])
    assert (replay.status, verdicts(replay)) == ("running", {1: "same"})
    with pytest.raises(Conflict):
        client.replay_notebook(replay.id)
    stopped = client.stop_replay(replay.id)
    assert stopped.status == "stopped"
    assert verdicts(stopped) == {1: "same", 2: "not_run", 3: "not_run"}
    assert client.get_session(found["session_id"]).status == "TERMINATED"
    assert client.stop_replay(replay.id).status == "stopped"
    events = [(event.event, event.data.get("number")) for event in client.replay_events(replay.id)]
    assert events[:4] == [("started", None), ("cell", 1), ("verdict", 1), ("cell", 2)]
    assert events[-1] == ("ended", None)
    assert [event.event for event in client.replay_events(replay.id, after=len(events) - 1)] == ["ended"]


def test_a_stop_while_the_session_starts_leaves_no_session(client: Client) -> None:
    before = {each.id for each in client.list_sessions(status="READY").items}
    replay = client.start_replay(SLEEPS)
    stopped = client.stop_replay(replay.id)
    assert (stopped.status, set(verdicts(stopped).values())) == ("stopped", {"not_run"})
    assert {each.id for each in client.list_sessions(status="READY").items} == before


def test_a_stop_interrupts_what_runs_in_a_session_that_is_continued(client: Client) -> None:
    with client.session() as session:
        replay = client.start_replay(SLEEPS, continue_session=session.id)
        next(event for event in client.replay_events(replay.id) if event.data.get("number") == 2)
        assert client.stop_replay(replay.id).session_live
        assert session.run("'goes on'").text == "'goes on'"
        assert [each.status for each in session.list_executions().items] == ["ok", "interrupted", "ok"]


def test_a_session_that_ends_under_a_replay_ends_it(client: Client) -> None:
    replay = client.start_replay(SLEEPS)
    cell = next(event for event in client.replay_events(replay.id) if event.data.get("number") == 2)
    assert cell.event == "cell"
    client.stop_session(client.get_replay(replay.id).session_id or "")
    ended = client.wait_replay(replay.id)
    assert (ended.same, verdicts(ended)) == (False, {1: "same", 2: "failed", 3: "not_run"})
    assert ended.error is not None
    assert (ended.status, ended.error.code) == ("failed", "session_terminated")


def test_one_request_answers_with_all_that_came_of_it(service: RunningService) -> None:
    body = {"notebook": json.loads(notebook(code("1", result("1")))), "determinism": False, "strict": True}
    headers = {"Authorization": f"Bearer {service.token}"}
    answer = httpx.post(f"{service.url}/v1/notebooks/replay", json=body, headers=headers, timeout=120)
    assert answer.status_code == 200
    found = answer.json()
    assert (found["status"], found["same"], found["counts"]) == ("done", True, {"same": 1})
    assert found["notebook"]["cells"][0]["metadata"]["sandcell"]["replay"]["verdict"] == "same"
    with service.client() as client:
        record = client.list_audit(event="StartReplay", limit=1).items[0]
    parameters = record.detail["requestParameters"]
    assert (parameters["determinism"], parameters["wait"]) == (False, True)
    assert parameters["notebook"]["bytes"] > 100


def test_the_same_with_asyncio(service: RunningService) -> None:
    async def scenario() -> None:
        async with AsyncClient(service.url, service.token) as client:
            begun = await client.start_replay(notebook(code("1", result("1"))))
            events = [event.event async for event in client.replay_events(begun.id)]
            assert events == ["started", "cell", "verdict", "ended"]
            ended = await client.wait_replay(begun.id)
            assert ended.same
            assert json.loads(await client.replay_notebook(begun.id)) == ended.notebook

    asyncio.run(scenario())


def test_a_replay_is_its_owners(service: RunningService, client: Client) -> None:
    other_token = client.create_token("somebody-else").token
    replay = client.replay(notebook(code("1", result("1"))))
    assert json.loads(client.replay_notebook(replay.id)) == replay.notebook
    with service.client(other_token) as other:
        for refused in (
            lambda: other.get_replay(replay.id),
            lambda: other.stop_replay(replay.id),
            lambda: other.replay_notebook(replay.id),
            lambda: list(other.replay_events(replay.id)),
            lambda: other.replay(session_id=replay.session_id),
            lambda: other.replay(notebook(code("1")), continue_session=replay.session_id),
            lambda: other.replay(notebook(code("1")), inputs=replay.session_id),
            lambda: other.start_session(replay_of=replay.session_id),
        ):
            with pytest.raises(NotFound):
                refused()


def test_what_is_not_there_is_told_at_once(client: Client) -> None:
    names: list[dict[str, Any]] = [{"environment": "absent"}, {"inputs": "absent"}, {"continue_session": "absent"}]
    for asked in names:
        with pytest.raises(NotFound):
            client.start_replay(SLEEPS, **asked)
    with pytest.raises(NotFound):
        client.start_replay(session_id="absent")


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({}, "either"),
        ({"notebook": {}, "session_id": "x"}, "either"),
        ({"notebook": {}, "continue_session": "x", "inputs": "y"}, "fresh session"),
        ({"notebook": json.loads(SLEEPS), "until": 9}, "its code cells are 1, 2, 3"),
        ({"notebook": json.loads(SLEEPS), "timeout_seconds": -1}, "more than 0"),
        ({"notebook": json.loads(SLEEPS), "determinisms": True}, "unknown field"),
    ],
)
def test_what_cannot_be_meant_is_refused(service: RunningService, asked: object, said: str) -> None:
    headers = {"Authorization": f"Bearer {service.token}"}
    answer = httpx.post(f"{service.url}/v1/notebooks/replay", json=asked, headers=headers, timeout=120)
    assert answer.status_code == 400
    assert said in answer.json()["error"]["message"]


@pytest.fixture(scope="module")
def small(make_service: Callable[..., RunningService]) -> RunningService:
    """A service with small limits, which keeps keys out of its records."""
    limits = {"replays": 2, "replays_per_principal": 1, "replay_cells": 3, "notebook_bytes": 5_000}
    return make_service(redact_patterns="key-[0-9]+", replay_memory_bytes=30_000, **limits)


def test_what_is_kept_out_of_records_is_no_difference(small: RunningService) -> None:
    with small.client() as client, client.session() as session:
        session.run("print('key-1', 2)")
        session.command("echo key-3 4; exit 5")
        replay = client.replay(session_id=session.id, keep_session=True)
        assert verdicts(replay) == {2: "same", 3: "same"}
        foreign = notebook(code("print('key-6')", stream("key-6\n")), code("print('key-7')", stream("7\n")))
        other = client.replay(foreign, continue_session=replay.session_id)
        assert verdicts(other) == {1: "same", 2: "different"}
        assert "key-7" not in on(other, 2).diff
        client.stop_session(replay.session_id or "")


def test_outputs_beyond_what_a_notebook_holds_are_left_out_and_said_to_be(small: RunningService) -> None:
    given = notebook(code("print('x' * 4_000)"), code("print('y' * 4_000)"))
    with small.client() as client:
        replay = client.replay(given)
    first, second = (cell["outputs"][0]["text"] for cell in replay.notebook["cells"])
    assert (first, second[:10]) == ("x" * 4_000 + "\n", "[left out:")


def test_replays_that_have_ended_are_forgotten_when_they_are_too_many(small: RunningService) -> None:
    given = notebook(code("1", result("1")), {"cell_type": "markdown", "metadata": {}, "source": "x" * 4_000})
    with small.client() as client, client.session() as session:
        replays = [client.replay(given, continue_session=session.id) for _ in range(8)]
        assert [replay.same for replay in replays] == [True] * 8
        with pytest.raises(NotFound):
            client.get_replay(replays[0].id)
        assert client.get_replay(replays[-1].id).notebook == replays[-1].notebook


def test_limits(small: RunningService) -> None:
    with small.client() as client:
        with pytest.raises(InvalidRequest, match="at most 3"):
            client.replay(notebook(*[code("1")] * 4))
        with pytest.raises(InvalidRequest, match="at most 5,000"):
            client.replay(notebook(code("1" * 6_000)))
        running = client.start_replay(SLEEPS)
        with pytest.raises(LimitReached, match="your replays"):
            client.start_replay(SLEEPS)
        tokens = [client.create_token(name).token for name in ("one", "two", "three")]
        with small.client(tokens[0]) as one, small.client(tokens[1]) as two, small.client(tokens[2]) as three:
            other = one.start_replay(SLEEPS)
            next_one, last = two.start_replay(SLEEPS), three.start_replay(SLEEPS)
            assert three.stop_replay(last.id).session_id is None  # two run, and it waited for one of them to end
            assert verdicts(three.get_replay(last.id)) == dict.fromkeys((1, 2, 3), "not_run")
            assert one.stop_replay(other.id).status == "stopped"
            eventually(lambda: two.get_replay(next_one.id).session_id)
            assert two.stop_replay(next_one.id).status == "stopped"
        assert client.stop_replay(running.id).status == "stopped"
        assert client.list_sessions(status="READY").items == []
