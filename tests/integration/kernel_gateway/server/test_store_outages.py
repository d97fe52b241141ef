"""A whole service through the outages of its store: what runs goes on, what waits is seen, what was written arrives.

One service on one S3 server for all of it; the outages are made between the two.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest

from tests.doubles.faulty_s3 import Fault, FaultyS3, Refusal, Reset
from tests.doubles.s3_servers import ACCESS_KEY, BUCKET, s3_server
from tests.integration.kernel_gateway.server.eventually import eventually
from tests.integration.kernel_gateway.server.rest import LiveSession, Rest
from tests.running_service import RunningService

MakeService = Callable[..., RunningService]
DEADLINE_SECONDS = 120


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FaultyS3]:
    with s3_server("rclone", tmp_path_factory.mktemp("s3")) as endpoint, FaultyS3(endpoint) as proxy:
        yield proxy


@pytest.fixture(scope="module")
def outages(server: FaultyS3, make_service: MakeService) -> Iterator[RunningService]:
    """A service that does not wait long for its store, and delivers often."""
    key, secret = ACCESS_KEY
    service = make_service(
        extra_environment={"AWS_ACCESS_KEY_ID": key, "AWS_SECRET_ACCESS_KEY": secret},
        store=f"s3://{BUCKET}/here?endpoint_url={server.endpoint}",
        flush_deadline_seconds=2,
        sweep_interval_seconds=1,
    )
    yield service
    server.heal()
    service.stop()


@pytest.fixture
def faulty(server: FaultyS3) -> Iterator[FaultyS3]:
    yield server
    server.heal()


@pytest.fixture
def rest(outages: RunningService) -> Iterator[Rest]:
    with Rest(outages) as rest:
        yield rest


def durable(session: LiveSession, name: str) -> str:
    answer = session.rest.http.get(f"/v1/workspaces/{session.workspace_id}/files/{name}")
    return answer.text if answer.is_success else str(answer.status_code)


@pytest.mark.sample("kills")
@pytest.mark.parametrize(
    ("fault", "said"),
    [
        (Refusal(503, "SlowDown"), "cannot serve now"),
        (Refusal(400, "ExpiredToken"), "the credentials have expired"),
        (Refusal(507, "InsufficientStorage"), "Free space"),
    ],
    ids=["throttling", "expired", "full"],
)
def test_executions_go_on_and_the_session_says_what_waits_and_why(
    faulty: FaultyS3, rest: Rest, fault: Fault, said: str
) -> None:
    with rest.session() as session:
        faulty.fail(fault)
        assert session.run("open('f', 'w').write('kept')")["status"] == "ok"
        eventually(lambda: session.show()["sync"]["error"])
        sync = session.show()["sync"]
        assert sync["pending"] is True
        assert said in sync["error"]
        session.works()
        faulty.heal()
        eventually(lambda: not session.show()["sync"]["pending"])
        assert session.show()["sync"]["error"] is None
        assert durable(session, "f") == "kept"


@pytest.mark.sample("kills")
@pytest.mark.parametrize(
    ("fault", "said"),
    [(Reset(), "does not answer"), (Refusal(404, "NoSuchBucket"), "there is no such bucket")],
    ids=["away", "bucket-gone"],
)
def test_a_session_that_ends_in_an_outage_leaves_its_files_here_until_it_is_over(
    faulty: FaultyS3, rest: Rest, fault: Fault, said: str
) -> None:
    session = rest.session()
    session.run("open('f', 'w').write('kept')")
    faulty.fail(fault)
    session.run("open('late', 'w').write('kept too')")
    ended = session.stop()
    assert ended["status"] == "TERMINATED"
    assert "waits on this host" in ended["ended"]["detail"]
    assert said in ended["ended"]["detail"]
    assert "\nsandcell_spool_workspaces 1.0\n" in rest.http.get("/metrics").text
    refused = rest.http.post("/v1/sessions", json={"workspace_id": session.workspace_id})
    assert (refused.status_code, refused.json()["error"]["code"]) == (503, "store_unavailable")
    faulty.heal()
    eventually(lambda: durable(session, "late") == "kept too")
    assert durable(session, "f") == "kept"
    eventually(lambda: "\nsandcell_spool_workspaces 0.0\n" in rest.http.get("/metrics").text)


@pytest.mark.long
@pytest.mark.timeout(1_200)
def test_a_store_that_is_away_for_ten_minutes_costs_nothing(faulty: FaultyS3, rest: Rest) -> None:
    """A session goes on with its work, another ends, and both are in the store soon after it is back."""
    lives, ends = rest.session(), rest.session()
    faulty.fail(Reset())
    ends.run("open('f', 'w').write('of the one that ended')")
    assert "waits on this host" in ends.stop()["ended"]["detail"]
    back_at = time.monotonic() + 600
    count = 0
    while time.monotonic() < back_at:
        count += 1
        assert lives.run(f"open('f', 'a').write('{count}\\n'); n = {count}")["status"] == "ok"
        assert rest.http.post("/v1/sessions", json={}).status_code == 503
        time.sleep(10)
    assert lives.show()["sync"]["pending"] is True
    faulty.heal()
    eventually(lambda: not lives.show()["sync"]["pending"])
    assert durable(lives, "f").split() == [str(each) for each in range(1, count + 1)]
    eventually(lambda: durable(ends, "f") == "of the one that ended")
    lives.stop()


@pytest.mark.sample("kills")
def test_a_start_without_a_permission_takes_up_live_sessions_and_says_what_is_missing(
    faulty: FaultyS3, outages: RunningService, rest: Rest
) -> None:
    session = rest.session()
    session.run("x = 41; open('f', 'w').write('kept')")
    outages.kill()
    faulty.deny("s3:PutObject")
    outages.start()
    eventually(lambda: "s3:PutObject" in "".join(outages.output))
    with Rest(outages) as later:
        again = LiveSession(later, later.get(session.path))
        assert again.run("open('g', 'w').write('kept too'); x + 1")["outputs"][0]["data"]["text/plain"] == "42"
        eventually(lambda: "s3:PutObject" in (again.show()["sync"]["error"] or ""))
        faulty.heal()
        again.stop()
        # A busy host may need longer than the flush's deadline.
        eventually(lambda: (durable(again, "f"), durable(again, "g")) == ("kept", "kept too"))
