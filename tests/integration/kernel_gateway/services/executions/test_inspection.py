"""Completion and inspection by a session's kernel, over the service: between cells, and no execution."""

from __future__ import annotations

import asyncio
import re
import time

import httpx
import pytest

from sandcell import AsyncClient, Client, Conflict, Forbidden, InvalidRequest, NotFound, ServiceUnavailable, Session
from tests.running_service import RunningService

PATIENT = 30.0
COLOURS = re.compile(r"\x1b\[[0-9;]*m")
CODE = '''
class Box:
    """A box of things."""

    colour = "red"

    def carry(self, distance_km, *, gently=False):
        "Take it somewhere."

class Slow:
    def __dir__(self):
        open("looked", "w").close()
        while True:
            pass

box, slow = Box(), Slow()
open("measured values.csv", "w").close(); open(b"odd\\xff.csv", "w").close()
'''


def until_there(session: Session, name: str) -> None:
    """Until code has made a file."""
    give_up = time.monotonic() + 120
    while name not in session.command("ls").stdout.split():
        assert time.monotonic() < give_up, f"there is no {name}"
        time.sleep(0.05)


@pytest.fixture(scope="module")
def prepared(session: Session) -> Session:
    """The session with something in it; each test leaves a kernel behind that answers."""
    assert session.run(CODE).error is None
    return session


def complete(session: Session, code: str, position: int | None = None) -> dict[str, str]:
    """What completes code, with the types of the matches."""
    found = session.complete(code, position, timeout=PATIENT)
    return {code[: found.cursor_start] + each.text: each.type for each in found.matches}


def wait_running(session: Session, execution_id: str) -> None:
    until = time.monotonic() + 120
    while session.get_execution(execution_id).status != "running" and time.monotonic() < until:
        time.sleep(0.05)


def test_what_the_kernel_completes(prepared: Session) -> None:
    found = complete(prepared, "box.c")
    assert found.keys() == {"box.carry", "box.colour"}
    assert found["box.carry"] == "function"
    assert "box.carry(gently=" in complete(prepared, "box.carry(gen")
    assert "%timeit" in complete(prepared, "%timei")
    assert any("measured" in text for text in complete(prepared, "open('measu"))
    assert "import random" in complete(prepared, "import rando")
    assert "for n in box.colour" in complete(prepared, "for n in box.col: pass", len("for n in box.col"))
    assert complete(prepared, "'é𝄞' + box.colo").keys() == {"'é𝄞' + box.colour"}


def test_a_file_whose_name_is_not_utf_8_is_completed_with_the_others(prepared: Session) -> None:
    found = prepared.complete("open('o", timeout=PATIENT)
    assert any("dd\udcff.csv" in each.text or "dd" in each.text for each in found.matches)


def test_what_is_known_of_a_name(prepared: Session) -> None:
    found = prepared.inspect("box.carry", timeout=PATIENT)
    assert found.found
    assert "Take it somewhere." in COLOURS.sub("", found.data["text/plain"])
    assert "def carry" not in COLOURS.sub("", found.data["text/plain"])
    source = prepared.inspect("box.carry(3)", len("box.car"), detail=1, timeout=PATIENT).data["text/plain"]
    assert "def carry(self, distance_km, *, gently=False)" in COLOURS.sub("", source)
    nothing = prepared.inspect("no_such_name", timeout=PATIENT)
    assert (nothing.found, nothing.data) == (False, {})


def test_looking_is_no_execution(prepared: Session) -> None:
    before = int(prepared.run("len(In)").text or "")
    ran, active = len(prepared.list_executions(limit=100).items), prepared.refresh().last_activity_at
    complete(prepared, "box.c")
    prepared.inspect("box", timeout=PATIENT)
    assert len(prepared.list_executions(limit=100).items) == ran
    assert prepared.refresh().last_activity_at == active
    after = prepared.run("len(In)")
    assert int(after.text or "") == before + 1
    assert prepared.run("In[-2]").text == repr("len(In)")


def test_the_audit_log_says_that_it_only_looked_and_not_at_what(prepared: Session, client: Client) -> None:
    complete(prepared, "box.col")
    until = time.monotonic() + 120
    while not (found := client.list_audit(event="ListCompletions", session_id=prepared.id, limit=1).items):
        assert time.monotonic() < until
        time.sleep(0.05)
    assert found[0].detail["readOnly"] is True
    assert found[0].detail["requestParameters"]["code"].keys() == {"characters", "sha256"}


def test_while_code_runs_it_is_refused_at_once(prepared: Session) -> None:
    running = prepared.submit("import time; time.sleep(600)")
    wait_running(prepared, running.id)
    for look in (prepared.complete, prepared.inspect):
        with pytest.raises(Conflict) as caught:
            look("box.c", timeout=PATIENT)
        assert (caught.value.code, caught.value.details["execution_id"]) == ("session_busy", running.id)
    prepared.interrupt_execution(running.id)
    assert prepared.wait(running.id).status == "interrupted"


def test_other_languages_do_not_keep_it_from_answering(prepared: Session) -> None:
    running = prepared.submit("await new Promise((done) => setTimeout(done, 600_000))", language="javascript")
    wait_running(prepared, running.id)
    assert "box.colour" in complete(prepared, "box.c")
    prepared.interrupt_execution(running.id)
    prepared.wait(running.id)


def test_code_that_never_returns_meets_the_deadline_and_an_interrupt_frees_the_kernel(prepared: Session) -> None:
    with pytest.raises(ServiceUnavailable) as caught:
        prepared.complete("slow.a", timeout=0.5)
    assert caught.value.code == "deadline_passed"
    until_there(prepared, "looked")  # an interrupt that comes before it finds nothing to interrupt
    prepared.interrupt()
    assert prepared.run("1 + 1").text == "2"


def test_a_kernel_that_forges_its_answer_gets_an_error(prepared: Session) -> None:
    prepared.run("kept = type(get_ipython().kernel).do_complete")
    for lie in (
        "{'matches': 5}",
        "{'status': 'ok', 'cursor_end': 99}",
        "{'status': 'ok', 'matches': ['x' * 3_000_000]}",
    ):
        prepared.run(f"type(get_ipython().kernel).do_complete = lambda *a: {lie}")
        with pytest.raises(ServiceUnavailable) as caught:
            prepared.complete("box.c", timeout=PATIENT)
        assert caught.value.code == "sandbox_unavailable"
    prepared.run("def fail(*a): raise SystemError\ntype(get_ipython().kernel).do_complete = kept")
    prepared.run("get_ipython().Completer.completions = fail")
    with pytest.raises(ServiceUnavailable, match="SystemError"):
        prepared.complete("box.c", timeout=PATIENT)
    prepared.run("del get_ipython().Completer.completions")


def test_what_is_asked_for_must_make_sense(prepared: Session, http: httpx.Client) -> None:
    for position in (-1, 6):
        with pytest.raises(InvalidRequest, match="cursor_position"):
            prepared.complete("box.c", position)
    for timeout in (0, 31):
        with pytest.raises(InvalidRequest, match="timeout_seconds"):
            prepared.inspect("box", timeout=timeout)
    refused = http.post(f"/v1/sessions/{prepared.id}/inspections", json={"code": "box", "detail": 2})
    assert (refused.status_code, refused.json()["error"]["field"]) == (400, "detail")


def test_who_may_only_read_may_not_ask(prepared: Session, service: RunningService, client: Client) -> None:
    token = client.create_token("admin", "reader", scope="read").token
    with Client(service.url, token) as reader, pytest.raises(Forbidden, match="scope run"):
        reader.complete(prepared.id, "box.c")


def test_others_and_ended_sessions(client: Client) -> None:
    with pytest.raises(NotFound):
        client.complete("00000000-0000-0000-0000-000000000000", "a")
    with client.session() as ended:
        pass
    with pytest.raises(Conflict) as caught:
        client.inspect(ended.id, "a")
    assert caught.value.code == "session_terminated"


def test_the_same_for_asyncio(prepared: Session, service: RunningService) -> None:
    async def ask() -> list[str]:
        async with AsyncClient(service.url, service.token) as client:
            session = await client.attach(prepared.id)
            assert (await session.inspect("box.carry", timeout=PATIENT)).found
            return [each.text for each in (await session.complete("box.col", timeout=PATIENT)).matches]

    assert asyncio.run(ask()) == ["colour"]
