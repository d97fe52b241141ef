"""Uploads by the client in parts: cut off, they go on where they were, and nothing shows before they are whole."""

from __future__ import annotations

import asyncio
import io
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from sandcell import AsyncClient, Client, Session
from sandcell.operations import files, uploads
from sandcell.transport import CHUNK
from tests.doubles.faulty_proxy import FaultyProxy
from tests.running_service import RunningService

SIZE = 1_100_000
PART = 400_000


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "MOST_AT_ONCE_BYTES", 1_000_000)
    monkeypatch.setattr(uploads, "PART_BYTES", PART)
    monkeypatch.setattr(uploads, "STREAM_PART_BYTES", PART)


@pytest.fixture(scope="module")
def client(service: RunningService) -> Iterator[Client]:
    with Client(service.url, service.token) as client:
        yield client


@pytest.fixture(scope="module")
def session(client: Client) -> Iterator[Session]:
    with client.session() as session:
        yield session


def test_a_call_that_is_made_again_goes_on_where_the_first_was(session: Session, tmp_path: Path) -> None:
    source, content = tmp_path / "a large one", os.urandom(SIZE)
    source.write_bytes(content)
    seen: list[int] = []

    def give_up(done: int, size: int | None) -> None:
        assert size == SIZE
        if done > PART + CHUNK:
            raise InterruptedError

    with pytest.raises(InterruptedError):
        session.upload("in it/it's large", source, on_progress=give_up)
    assert session.files(recursive=True) == []
    entry = session.upload("in it/it's large", source, on_progress=lambda done, _size: seen.append(done))
    assert (entry.path, entry.size) == ("in it/it's large", SIZE)
    assert (seen[0] > PART, seen[-1]) == (True, SIZE)  # it may go back once: bytes of the first call still came
    assert session.download("in it/it's large") == content
    assert [each.path for each in session.files(recursive=True)] == ["in it", "in it/it's large"]
    source.write_bytes(content[::-1])  # another version is another upload
    os.utime(source, (1, 1))
    assert session.upload("in it/it's large", source).size == SIZE
    assert session.download("in it/it's large") == content[::-1]


def test_a_connection_that_breaks_costs_no_more_than_what_was_on_its_way(
    service: RunningService, session: Session, tmp_path: Path
) -> None:
    source, content = tmp_path / "data", os.urandom(SIZE)
    source.write_bytes(content)
    proxy, broken = FaultyProxy(service.url), [PART // 2, PART + CHUNK]
    seen: list[int] = []

    def break_off(done: int, _size: int | None) -> None:
        seen.append(done)
        if broken and done > broken[0]:
            broken.pop(0)
            proxy.drop()

    try:
        with Client(proxy.endpoint, service.token) as client:
            assert client.upload(session.id, "broken", source, on_progress=break_off).size == SIZE
    finally:
        proxy.close()
    assert (broken, seen[-1]) == ([], SIZE)
    assert session.download("broken") == content


def test_a_stream_is_read_to_its_end(service: RunningService, session: Session) -> None:
    content = os.urandom(SIZE)
    seen: list[tuple[int, int | None]] = []
    session.upload("stream", io.BytesIO(content), on_progress=lambda done, size: seen.append((done, size)))
    assert seen[-1] == (SIZE, None)
    assert session.download("stream") == content
    assert session.upload("nothing", io.BytesIO()).size == 0

    async def scenario() -> None:
        async with AsyncClient(service.url, service.token) as client:
            there = await client.attach(session.id)
            assert (await there.upload("stream", io.BytesIO(content[::-1]))).size == SIZE
            assert await there.download("stream") == content[::-1]

    asyncio.run(scenario())


def test_a_durable_file_goes_in_parts_as_well(client: Client) -> None:
    content = os.urandom(SIZE)
    with client.session() as session:
        workspace_id = session.info.workspace_id
    entry = client.workspace_upload(workspace_id, "data", content)
    assert entry.size == SIZE
    assert client.workspace_download(workspace_id, "data") == content


@pytest.mark.long
def test_three_hundred_megabytes(
    service: RunningService, session: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()
    source = tmp_path / "large"
    with source.open("wb") as file:
        for _ in range(300):
            file.write(os.urandom(1_000_000))
    assert session.upload(source).size == 300_000_000
    session.download("large", tmp_path / "back")
    with source.open("rb") as sent, (tmp_path / "back").open("rb") as came:
        assert all(sent.read(1_000_000) == came.read(1_000_000) for _ in range(300))
