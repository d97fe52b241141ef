"""Downloads over connections that break: they go on, or begin again, and never mix two versions of a file."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from sandcell import AsyncClient, Client, NotFound, Session
from tests.doubles.faulty_proxy import TORN_BYTES, FaultyProxy
from tests.running_service import RunningService

LARGE_BYTES = 20_000_000
"""More than the buffers of a connection hold: it can be cut when the first bytes have come."""


@pytest.fixture
def proxy(service: RunningService) -> Iterator[FaultyProxy]:
    proxy = FaultyProxy(service.url)
    yield proxy
    proxy.close()


@pytest.fixture(scope="module")
def workspace(service: RunningService) -> str:
    """One whose session has ended."""
    with service.client() as client, client.session() as session:
        return session.info.workspace_id


@pytest.fixture(scope="module")
def session(service: RunningService) -> Iterator[Session]:
    with service.client() as client, client.session() as session:
        yield session


Fetch = Callable[[str, str, str, Path], Path]


def fetch_durable(url: str, token: str, workspace: str, to: Path) -> Path:
    with Client(url, token) as client:
        return client.workspace_download_to(workspace, "data", to)


def fetch_durable_with_asyncio(url: str, token: str, workspace: str, to: Path) -> Path:
    async def scenario() -> Path:
        async with AsyncClient(url, token) as client:
            return await client.workspace_download_to(workspace, "data", to)

    return asyncio.run(scenario())


def fetch_live(url: str, token: str, session_id: str, to: Path) -> Path:
    with Client(url, token) as client:
        return client.download_to(session_id, "data", to)


def fetch_live_with_asyncio(url: str, token: str, session_id: str, to: Path) -> Path:
    async def scenario() -> Path:
        async with AsyncClient(url, token) as client:
            return await client.download_to(session_id, "data", to)

    return asyncio.run(scenario())


def wait_settled(service: RunningService, session_id: str) -> None:
    """Until the file's ETag is a strong one: what has changed just now might change again and look the same."""
    until = time.monotonic() + 120
    address = f"{service.url}/v1/sessions/{session_id}/files/data"
    headers = {"Authorization": f"Bearer {service.token}"}
    while httpx.get(address, headers=headers, trust_env=False).headers["ETag"].startswith("W/"):
        assert time.monotonic() < until
        time.sleep(0.1)


@pytest.mark.parametrize("fetch", [fetch_durable, fetch_durable_with_asyncio, fetch_live, fetch_live_with_asyncio])
def test_a_file_comes_whole_though_every_connection_breaks(
    service: RunningService, proxy: FaultyProxy, workspace: str, session: Session, tmp_path: Path, fetch: Fetch
) -> None:
    content = os.urandom(3 * TORN_BYTES)  # no connection brings more than a third of it
    if fetch in (fetch_live, fetch_live_with_asyncio):
        owner = session.id
        session.upload("data", content)
        wait_settled(service, owner)
    else:
        owner = workspace
        session.client.workspace_upload(owner, "data", content)
    proxy.fault = "tear"
    assert fetch(proxy.endpoint, service.token, owner, tmp_path / "data").read_bytes() == content


def test_a_file_that_changes_meanwhile_is_the_new_one(
    service: RunningService, proxy: FaultyProxy, workspace: str, tmp_path: Path
) -> None:
    old, new = os.urandom(LARGE_BYTES), os.urandom(1_000_000)
    seen: list[tuple[int, int | None]] = []

    def note(done: int, size: int | None) -> None:
        seen.append((done, size))
        if len(seen) == 1:
            direct.workspace_upload(workspace, "data", new)
            proxy.drop()

    with service.client() as direct, Client(proxy.endpoint, service.token) as client:
        direct.workspace_upload(workspace, "data", old)
        target = client.workspace_download_to(workspace, "data", tmp_path / "data", on_progress=note)
    assert target.read_bytes() == new
    assert (seen[0][1], seen[-1]) == (LARGE_BYTES, (len(new), len(new)))


def test_a_live_file_that_changes_meanwhile_is_the_new_one(
    service: RunningService, proxy: FaultyProxy, session: Session, tmp_path: Path
) -> None:
    old, new = os.urandom(LARGE_BYTES), os.urandom(1_000_000)
    session.upload("data", old)
    wait_settled(service, session.id)
    seen: list[tuple[int, int | None]] = []

    def note(done: int, size: int | None) -> None:
        seen.append((done, size))
        if len(seen) == 1:
            session.upload("data", new)
            proxy.drop()

    with Client(proxy.endpoint, service.token) as client:
        target = client.download_to(session.id, "data", tmp_path / "data", on_progress=note)
    assert target.read_bytes() == new
    assert (seen[0][1], seen[-1]) == (LARGE_BYTES, (len(new), len(new)))


def test_a_live_file_that_goes_away_meanwhile_leaves_the_old_one(
    service: RunningService, proxy: FaultyProxy, session: Session, tmp_path: Path
) -> None:
    session.upload("data", os.urandom(LARGE_BYTES))
    target = tmp_path / "data"
    target.write_bytes(b"old")
    seen: list[int] = []

    def note(done: int, size: int | None) -> None:
        seen.append(done)
        if len(seen) == 1:
            session.remove_file("data")
            proxy.drop()

    with Client(proxy.endpoint, service.token) as client, pytest.raises(NotFound):
        client.download_to(session.id, "data", target, on_progress=note)
    assert [each.name for each in tmp_path.iterdir()] == ["data"]
    assert target.read_bytes() == b"old"
