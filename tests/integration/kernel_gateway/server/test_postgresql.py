"""A whole service over PostgreSQL: killed, taken up again, its server away for a while, its audit log verified."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.integration.kernel_gateway.server.eventually import eventually
from tests.integration.kernel_gateway.server.rest import LiveSession, Rest
from tests.postgresql_server import PostgresqlServer
from tests.running_service import RunningService

MakeService = Callable[..., RunningService]
SLOW = "import time\nprint('begun', flush=True)\ntime.sleep(6)\nprint('ended')"


@pytest.fixture(scope="module")
def url(postgresql: PostgresqlServer) -> str:
    return postgresql.create_database(migrated=False)


@pytest.fixture(scope="module")
def service(make_service: MakeService, url: str) -> RunningService:
    return make_service(database=url)


@pytest.fixture
def rest(service: RunningService) -> Iterator[Rest]:
    with Rest(service) as rest:
        yield rest


def verify(service: RunningService, url: str) -> tuple[int, Any]:
    """What `sandcell audit verify` says of the database, beside the service."""
    words = ("audit", "verify", "--data-dir", str(service.data_dir), "--json")
    done = subprocess.run(
        [sys.executable, "-m", "kernel_gateway", *words],
        env={"PATH": "/usr/bin:/bin", "SANDCELL_DATABASE": url},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    return done.returncode, json.loads(done.stdout or "null") or done.stderr


def test_what_runs_and_waits_goes_on_over_a_kill_and_no_key_runs_twice(service: RunningService, url: str) -> None:
    key = {"Idempotency-Key": str(uuid.uuid4())}
    with Rest(service) as rest:
        session = rest.session()
        assert session.run("x = 41\nprint(x + 1)")["stdout"] == "42\n"
        runs = session.submit(SLOW)
        body = {"code": "x += 1; print(x)", "wait": False}
        with ThreadPoolExecutor(4) as threads:
            path = f"{session.path}/executions"
            asked = [threads.submit(rest.http.post, path, json=body, headers=key) for _ in range(4)]
            ids = {each.result().json()["id"] for each in asked}
        assert len(ids) == 1
        eventually(lambda: rest.get(f"{path}/{runs['id']}")["status"] == "running")
    service.kill()
    service.start()
    with Rest(service) as rest:
        session = LiveSession(rest, rest.get(session.path))
        outcome = session.outcome(runs["id"])
        assert (outcome["status"], outcome["stdout"]) == ("ok", "begun\nended\n")
        assert rest.http.post(f"{session.path}/executions", json=body, headers=key).json()["id"] in ids
        assert session.outcome(ids.pop())["stdout"] == "42\n"
        assert session.run("print(x)")["stdout"] == "42\n", "it ran once"
        assert session.show()["generation"] == 1
        session.stop()
        cells = rest.get(f"{session.path}/notebook")["cells"]
        assert sum("x += 1" in "".join(each["source"]) for each in cells) == 1
    status, said = verify(service, url)
    assert status == 0, said


@pytest.mark.sample("kills")
def test_a_second_service_does_not_start_on_it(service: RunningService, make_service: MakeService, url: str) -> None:
    with pytest.raises(AssertionError, match="another service uses this database"):
        make_service(database=url)
    with Rest(service) as rest, rest.session() as session:
        session.works()


@pytest.mark.sample("kills")
def test_a_server_that_is_restarted_costs_no_session(
    service: RunningService, rest: Rest, postgresql: PostgresqlServer
) -> None:
    with rest.session() as session, rest.session() as other:
        session.run("kept = 1")
        runs = other.submit(SLOW)
        eventually(lambda: rest.get(f"{other.path}/executions/{runs['id']}")["status"] == "running")
        postgresql.stop(signal.SIGQUIT)
        refused = rest.http.post(f"{session.path}/executions", json={"code": "kept += 1"})
        ready = rest.http.get("/readyz")
        postgresql.start()
        assert (refused.status_code, refused.json()["error"]["code"]) == (503, "database_unavailable")
        assert (ready.status_code, ready.json()["error"]["code"]) == (503, "database_unavailable")
        assert str(Path(postgresql.address("x")).parent) not in refused.text
        eventually(lambda: rest.http.get("/readyz").is_success)
        assert session.run("print(kept)")["stdout"] == "1\n"
        assert other.outcome(runs["id"])["stdout"] == "begun\nended\n", "what ran went on"


def test_many_sessions_start_and_run_at_once(rest: Rest) -> None:
    with ThreadPoolExecutor(4) as threads:
        sessions = list(threads.map(lambda _: rest.session(), range(4)))
        asked = [each for each in sessions for _ in range(5)]
        ended = list(threads.map(lambda each: each.run("n = globals().get('n', 0) + 1; print(n)"), asked))
        assert [each["status"] for each in ended] == ["ok"] * len(asked)
        for each in sessions:
            assert each.run("print(n)")["stdout"] == "5\n"
            each.stop()
