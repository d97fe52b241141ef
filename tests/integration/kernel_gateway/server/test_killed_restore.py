"""A real service is killed while it restores a workspace from a real S3 server that stalls; nothing is lost."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator

import pytest

from tests.doubles.faulty_s3 import FaultyS3, Stall
from tests.doubles.s3_servers import ACCESS_KEY, BUCKET
from tests.integration.kernel_gateway.server.rest import LiveSession, Rest
from tests.running_service import RunningService

DEADLINE_SECONDS = 120
WRITE = "import os; os.mkdir('d'); open('d/small', 'w').write('s'); open('large', 'w').write('x' * 50_000)"


@pytest.fixture
def server(moto_endpoint: str) -> Iterator[FaultyS3]:
    with FaultyS3(moto_endpoint) as proxy:
        yield proxy


def until_all_but_one(rest: Rest, path: str) -> None:
    """Wait for the small file to have come."""
    give_up = time.monotonic() + DEADLINE_SECONDS
    while rest.get(path)["sync"]["restoring"] != {"files_left": 1, "bytes_left": 50_000, "error": None}:
        assert time.monotonic() < give_up, rest.get(path)["sync"]
        time.sleep(0.05)


@pytest.mark.sample("kills")
def test_a_service_killed_while_it_restores_loses_nothing_and_goes_on_by_itself(
    server: FaultyS3, make_service: Callable[..., RunningService]
) -> None:
    service = make_service(
        extra_environment={"AWS_ACCESS_KEY_ID": ACCESS_KEY[0], "AWS_SECRET_ACCESS_KEY": ACCESS_KEY[1]},
        store=f"s3://{BUCKET}/{uuid.uuid4().hex}?endpoint_url={server.endpoint}",
    )
    with Rest(service) as rest:
        before = rest.session()
        assert before.run(WRITE)["status"] == "ok"
        before.stop()
        server.fail(Stall(), "GetObject", key=lambda key: key.endswith("/large"))
        session = rest.session(workspace_id=before.workspace_id)
        waiting = session.submit("print(len(open('large').read()), open('d/small').read())")
        until_all_but_one(rest, session.path)
        assert rest.get(f"{session.path}/executions/{waiting['id']}")["status"] == "queued"
        service.kill()
    service.start()
    with Rest(service) as rest:
        again = LiveSession(rest, rest.get(session.path))
        until_all_but_one(rest, session.path)  # it goes on by itself
        server.heal()
        done = again.outcome(waiting["id"])
        assert (done["status"], done["stdout"]) == ("ok", "50000 s\n")
        assert rest.get(session.path)["sync"]["restoring"] is None
        again.stop()
        for name, size in (("d/small", 1), ("large", 50_000)):
            assert len(rest.http.get(f"/v1/workspaces/{before.workspace_id}/files/{name}").content) == size
    service.stop()
