"""Gateways that stand still for longer than their leases, as a machine without time for them has them, and go on.

What they were asked meanwhile they do not do, what they had runs on at another, and they lead their callers there.
"""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.gateways import Gateways
from tests.integration.kernel_gateway.server.eventually import eventually
from tests.integration.kernel_gateway.server.rest import LiveSession, Rest, seen_from
from tests.integration.kernel_gateway.server.test_killed_gateways import STREAM, make_lines
from tests.running_service import RunningService

COUNT = "count = globals().get('count', 0) + 1; print(count)"


@pytest.fixture(scope="module")
def other(gateways: Gateways) -> Iterator[Rest]:
    with Rest(gateways.start()) as rest:
        yield rest


@pytest.mark.sample("kills")
def test_what_it_had_runs_on_at_another_of_the_host(gateways: Gateways, other: Rest) -> None:
    third = gateways.start()
    with Rest(third) as rest, ThreadPoolExecutor(2) as threads:
        session = rest.session(name="held up")
        session.run(COUNT)
        runs = session.submit(STREAM)
        waits = [session.submit(COUNT) for _ in range(2)]
        eventually(lambda: rest.get(f"{session.path}/executions/{runs['id']}")["stdout"] != "")
        hung = third.service_pid
        os.kill(hung, signal.SIGSTOP)
        try:
            asked = [threads.submit(_ask, rest, "POST", f"{session.path}/executions", json={"code": COUNT})]
            eventually(lambda: _answers(other, session.path))  # what was passed on to it is cut off
            there = seen_from(other, session)
            assert there.outcome(runs["id"])["stdout"].splitlines() == make_lines()
            assert [there.outcome(each["id"])["stdout"] for each in waits] == ["2\n", "3\n"]
            assert there.run(COUNT)["stdout"] == "4\n"
            assert there.show()["generation"] == 1
            known = _list_executions(other, session)
        finally:
            with contextlib.suppress(ProcessLookupError):  # its launcher has ended it
                os.kill(hung, signal.SIGCONT)
        assert not [status for status in (each.result() for each in asked) if status < 300]
    eventually(lambda: third.find_service_pid() not in {None, hung})
    with Rest(third) as rest:
        eventually(lambda: _answers(rest, "/readyz"))
        assert _list_executions(rest, session) == known
        assert seen_from(rest, session).run(COUNT)["stdout"] == "5\n"
        there.stop()
    _stop_when_empty(third)


@pytest.mark.sample("kills")
def test_a_launcher_that_is_back_before_its_service_lets_go_of_what_another_has(
    gateways: Gateways, other: Rest
) -> None:
    third = gateways.start()
    with Rest(third) as rest:
        session = rest.session(name="back soon")
        session.run(COUNT)
        runs = session.submit(STREAM)
        eventually(lambda: rest.get(f"{session.path}/executions/{runs['id']}")["stdout"] != "")
    third.kill()
    with ThreadPoolExecutor(1) as threads:
        starting = threads.submit(third.start)
        begins = _await_service(third)
        os.kill(begins, signal.SIGSTOP)  # before it has renewed anything
        try:
            eventually(lambda: _answers(other, session.path))  # what was passed on to it is cut off
            there = seen_from(other, session)
            assert there.outcome(runs["id"])["stdout"].splitlines() == make_lines()
            assert (there.run(COUNT)["stdout"], there.show()["generation"]) == ("2\n", 1)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.kill(begins, signal.SIGCONT)
        starting.result()
    with Rest(third) as rest:
        assert seen_from(rest, session).run(COUNT)["stdout"] == "3\n"
        assert there.show()["generation"] == 1
        there.stop()
    _stop_when_empty(third)


@pytest.mark.sample("kills")
def test_a_guest_that_hangs_holds_up_its_own_session_alone(gateways: Gateways, other: Rest) -> None:
    third = gateways.start()
    with Rest(third) as rest:
        sessions = [rest.session(name=f"number {number}") for number in range(4)]
        for each in sessions:
            each.run(COUNT)
    guest = int((third.data_dir / "sandboxes" / sessions[0].id / "bundle" / "pid").read_text())
    os.kill(guest, signal.SIGSTOP)
    third.kill()
    try:
        for each in sessions[1:]:
            assert seen_from(other, each).run(COUNT)["stdout"] == "2\n"
    finally:
        os.kill(guest, signal.SIGCONT)
    for each in sessions:
        there = seen_from(other, each)
        assert there.run("print(count)")["stdout"] == ("1\n" if each is sessions[0] else "2\n")
        assert there.show()["generation"] == 1
        there.stop()
    third.start()
    _stop_when_empty(third)


@pytest.mark.sample("kills")
def test_one_whose_sandboxes_are_out_of_reach_lets_go(gateways: Gateways, other: Rest, short_directory: Path) -> None:
    third = gateways.start(run_dir=short_directory)  # as on another host
    with Rest(third) as rest, ThreadPoolExecutor(2) as threads:
        session = rest.session(name="hung")
        session.run("x = 1")
        runs = session.submit("import time\nwhile True: open('kept', 'w').write('hung'); time.sleep(0.1)")
        eventually(lambda: rest.get(f"{session.path}/executions/{runs['id']}")["status"] == "running")
        hung = third.service_pid
        os.kill(hung, signal.SIGSTOP)
        try:
            # What it is asked for now it reads when it goes on, and it finds the session in its memory.
            asked = [
                threads.submit(_ask, rest, "POST", f"{session.path}/executions", json={"code": "1 + 1"}),
                threads.submit(_ask, rest, "PUT", f"{session.path}/files/kept", content=b"hung"),
            ]
            # It takes connections and says nothing: they are cut when its lease is over.
            eventually(lambda: _answers(other, f"{session.path}/variables"))
            there = seen_from(other, session)
            assert there.run("print('x' in globals())")["stdout"] == "False\n"
            there.run("open('kept', 'w').write('here')", sync="before_return")
            known = _list_executions(other, session)
        finally:
            os.kill(hung, signal.SIGCONT)
        assert not [status for status in (each.result() for each in asked) if status < 300]
    eventually(lambda: third.find_service_pid() not in {None, hung})
    eventually(lambda: "gateway_taken_over" in "".join(third.output))
    with Rest(third) as rest:
        eventually(lambda: _answers(rest, "/readyz"))
        assert seen_from(rest, session).run("print('x' in globals(), open('kept').read())")["stdout"] == "False here\n"
        assert rest.http.get(f"/v1/workspaces/{session.workspace_id}/files/kept").content == b"here"
        assert _list_executions(rest, session)[:-1] == known
        there.stop()
    third.stop()


def _stop_when_empty(service: RunningService) -> None:
    """Another gateway removes its sandboxes after the answer: one that stops before leaves its mount and its group."""
    eventually(lambda: not list(service.data_dir.glob("sandboxes/*")))
    service.stop()


def _list_executions(rest: Rest, session: LiveSession) -> list[tuple[str, str]]:
    return [(each["id"], each["status"]) for each in rest.get(f"{session.path}/executions")["items"]]


def _ask(rest: Rest, method: str, path: str, **more: Any) -> int:
    """The status of the answer; 500 where there is none."""
    try:
        return rest.http.request(method, path, **more).status_code
    except httpx.TransportError:
        return 500


def _answers(rest: Rest, path: str) -> bool:
    with contextlib.suppress(httpx.TransportError):
        return rest.http.get(path).is_success
    return False


def _await_service(service: RunningService) -> int:
    """The process that serves, as soon as there is one."""
    found: list[int] = []

    def look() -> bool:
        with contextlib.suppress(AssertionError, OSError):  # its launcher is not there yet
            found.extend(filter(None, [service.find_service_pid()]))
        return bool(found)

    eventually(look)
    return found[0]
