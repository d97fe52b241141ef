"""From several gateways back to one service and forth again: older files never replace newer, nothing is stranded."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.doubles.faulty_s3 import FaultyS3, Refusal
from tests.doubles.s3_servers import ACCESS_KEY, BUCKET
from tests.doubles.server_process import free_port
from tests.integration.kernel_gateway.server.eventually import eventually
from tests.integration.kernel_gateway.server.rest import LiveSession, Rest
from tests.postgresql_server import PostgresqlServer
from tests.running_service import RunningService

pytestmark = pytest.mark.long  # five starts of services


class House:
    """Two services of one database and one S3 store, which is `away` for the first alone."""

    def __init__(self, make: Callable[..., RunningService], url: str, endpoint: str, away: FaultyS3) -> None:
        self.away = away
        self._make = make
        self._url = url
        self._stores = [
            f"s3://{BUCKET}/back?endpoint_url={each}&region=us-east-1" for each in (away.endpoint, endpoint)
        ]

    def make(self, number: int) -> RunningService:
        key, secret = ACCESS_KEY
        return self._make(
            extra_environment={"AWS_ACCESS_KEY_ID": key, "AWS_SECRET_ACCESS_KEY": secret},
            **self.as_gateway(),
            database=self._url,
            store=self._stores[number],
            secrets_key="7" * 64,
            flush_deadline_seconds=2,
            sweep_interval_seconds=1,
        )

    def as_gateway(self) -> dict[str, Any]:
        port = free_port()
        return {"port": port, "gateway_address": f"http://127.0.0.1:{port}", "gateway_lease_seconds": 4}

    def leave_in_spool(self, service: RunningService, *sessions: LiveSession) -> None:
        self.away.fail(Refusal(503, "SlowDown"))
        for session in sessions:
            session.run("open('f', 'w').write('from before')")
            session.stop()
        assert {each.workspace_id for each in sessions} <= {each.name for each in spool(service)}
        service.kill()
        self.away.heal()


@pytest.fixture
def house(
    make_service: Callable[..., RunningService], postgresql: PostgresqlServer, moto_endpoint: str
) -> Iterator[House]:
    with FaultyS3(moto_endpoint) as away:
        yield House(make_service, postgresql.create_database(migrated=False), moto_endpoint, away)


def spool(service: RunningService) -> list[Path]:
    return sorted((service.data_dir / "state" / "spool").iterdir())


def store(rest: Rest, session: LiveSession, content: bytes) -> httpx.Response:
    return rest.http.put(f"/v1/workspaces/{session.workspace_id}/files/f", content=content)


def stored(rest: Rest, session: LiveSession) -> bytes:
    return rest.http.get(f"/v1/workspaces/{session.workspace_id}/files/f").content


def keeps(rest: Rest) -> bool:
    """The store is free a minute after the last of the others has used it."""
    begun = rest.http.post("/v1/sessions", json={})
    return begun.is_success and rest.http.delete(f"/v1/sessions/{begun.json()['id']}").is_success


def test_older_files_never_replace_newer_and_nothing_is_stranded(house: House) -> None:
    first, second = house.make(0), house.make(1)
    with Rest(first) as one, Rest(second) as other:
        changed, removed = one.session(), one.session()
        house.leave_in_spool(first, changed, removed)
        eventually(lambda: store(other, changed, b"newer").is_success)  # once the lease of the first is over
        assert other.http.delete(f"/v1/workspaces/{removed.workspace_id}").is_success
    second.stop()

    # Alone, on the data directory in which the older files wait.
    first.start(gateway_address="", keep_sessions_on_shutdown=True)
    with Rest(first) as alone:
        assert "workspace_set_aside" in "".join(first.output)
        [aside] = spool(first)
        assert aside.name.startswith(changed.workspace_id)
        assert aside.name.endswith(".aside")
        assert stored(alone, changed) == b"newer"
        eventually(lambda: keeps(alone))
        with alone.session(workspace_id=changed.workspace_id) as session:
            assert session.run("print(open('f').read())")["stdout"] == "newer\n"
        assert alone.http.get(f"/v1/workspaces/{removed.workspace_id}/files/f").status_code == 404
        live = alone.session()
        live.run("open('f', 'w').write('alone')", sync="before_return")
    first.stop()

    second.start(**house.as_gateway())  # which has never heard of what the first had alone
    with Rest(second) as other:
        eventually(lambda: store(other, changed, b"newest").is_success)
        there = LiveSession(other, other.get(live.path))
        assert there.run("print(open('f').read())")["stdout"] == "alone\n"
        there.stop()
        first.start(**house.as_gateway())  # to remove the sandbox that it has kept
        assert stored(other, changed) == b"newest"
    first.stop()
    second.stop()
