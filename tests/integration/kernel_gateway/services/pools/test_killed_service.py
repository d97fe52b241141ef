"""A service with pools that is killed: nothing of them is left, and the sessions that had a part in them go on."""

from __future__ import annotations

import os
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import httpx
import pytest

from sandcell import SandcellError
from tests.conftest import MakeService
from tests.running_service import RunningService

SIZE = 1


def find_sandboxes(service: RunningService) -> set[str]:
    return {path.name for path in (service.data_dir / "sandboxes").iterdir()}


def until_full(service: RunningService, without: frozenset[str] | set[str] = frozenset()) -> None:
    """Wait for a full pool, and until those sandboxes have gone."""
    give_up = time.monotonic() + 120
    with service.client() as client:
        while True:
            assert time.monotonic() < give_up, (find_sandboxes(service), without)
            with suppress(SandcellError, httpx.HTTPError):
                pool = client.get_environment("python").pool
                full = pool is not None and (pool.ready, pool.starting) == (SIZE, 0)
                if full and not find_sandboxes(service) & without:
                    return
            time.sleep(0.05)


def start_session(service: RunningService) -> str | None:
    with service.client() as client, suppress(SandcellError, httpx.HTTPError):
        return client.start_session().id
    return None


@pytest.fixture
def warm_service(make_service: MakeService, tmp_path: Path) -> RunningService:
    file = tmp_path / "environments.toml"
    file.write_text(f"[python]\nwarm = {SIZE}\n")
    return make_service(environments_file=file)


@pytest.mark.sample("kills")
def test_kill_9_leaves_no_pool_behind_and_sessions_go_on(warm_service: RunningService) -> None:
    service = warm_service
    until_full(service)
    session_id = start_session(service)
    assert session_id is not None
    with service.client() as client:
        assert client.run(session_id, "kept = 41").ok
    until_full(service)
    pool = find_sandboxes(service) - {session_id}
    assert len(pool) == SIZE
    os.kill(service.service_pid, signal.SIGKILL)  # the launcher starts the service again
    until_full(service, without=pool)
    with service.client() as client:
        assert client.run(session_id, "kept + 1").text == "42"

    pool = find_sandboxes(service) - {session_id}
    with ThreadPoolExecutor(SIZE) as claims:
        claimed = [claims.submit(start_session, service) for _ in range(SIZE)]
        service.kill()  # the launcher, and the service with it
    told = {found for each in claimed if (found := each.result()) is not None}
    service.start()
    with service.client() as client:
        live = {each.id for each in client.list_sessions(status="READY").items}
        assert told <= live, "what was acknowledged is there"
        until_full(service, without=pool - live)
        assert all(client.run(each, "6 * 7").text == "42" for each in live)
    assert service.stop() == 0
    assert find_sandboxes(service) == set()
