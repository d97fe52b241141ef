"""Uploads in parts over what breaks: connections, clients and the service. They go on where they were."""

from __future__ import annotations

import asyncio
import io
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from sandcell import AsyncClient, Client, ConnectionFailed, Session
from sandcell.operations import files, uploads
from sandcell.transport import CHUNK
from tests.doubles.faulty_proxy import FaultyProxy
from tests.running_service import RunningService

PART_BYTES = 1_000_000
SIZE = 2_500_000
LONG_SIZE = 300_000_000
Note = Callable[[int, int | None], None]
Put = Callable[[str, str, str, Path, Note], None]


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "MOST_AT_ONCE_BYTES", PART_BYTES)
    monkeypatch.setattr(uploads, "PART_BYTES", PART_BYTES)
    monkeypatch.setattr(uploads, "STREAM_PART_BYTES", PART_BYTES)


@pytest.fixture
def proxy(service: RunningService) -> Iterator[FaultyProxy]:
    proxy = FaultyProxy(service.url)
    yield proxy
    proxy.close()


@pytest.fixture(scope="module")
def session(service: RunningService) -> Iterator[Session]:
    with service.client() as client, client.session() as session:
        yield session


@pytest.fixture(scope="module")
def workspace(service: RunningService) -> str:
    """One whose session has ended."""
    with service.client() as client, client.session() as session:
        return session.info.workspace_id


@pytest.fixture
def source(tmp_path: Path) -> Path:
    source = tmp_path / "source"
    source.write_bytes(os.urandom(SIZE))
    return source


def put(url: str, token: str, session_id: str, source: Path, note: Note) -> None:
    with Client(url, token) as client:
        client.upload(session_id, "in it/it's large", source, on_progress=note)


def put_with_asyncio(url: str, token: str, session_id: str, source: Path, note: Note) -> None:
    async def scenario() -> None:
        async with AsyncClient(url, token) as client:
            await client.upload(session_id, "in it/it's large", source, on_progress=note)

    asyncio.run(scenario())


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("put", [put, put_with_asyncio])
def test_an_upload_goes_on_when_connections_break(
    service: RunningService, proxy: FaultyProxy, session: Session, source: Path, put: Put
) -> None:
    seen: list[int] = []

    def note(done: int, size: int | None) -> None:
        assert size == SIZE
        seen.append(done)
        if len(seen) in (2, 5, 9):
            proxy.drop()

    put(proxy.endpoint, service.token, session.id, source, note)
    assert seen[-1] == SIZE
    assert session.download("in it/it's large") == source.read_bytes()
    assert [each.path for each in session.files(recursive=True)] == ["in it", "in it/it's large"]
    session.remove_file("in it", recursive=True)


@pytest.mark.usefixtures("small")
def test_an_upload_goes_on_in_the_next_client(session: Session, source: Path) -> None:
    def give_up(done: int, _size: int | None) -> None:
        if done > 1_500_000:
            raise InterruptedError

    seen: list[int] = []
    with pytest.raises(InterruptedError):
        session.upload("again", source, on_progress=give_up)
    session.upload("again", source, on_progress=lambda done, _size: seen.append(done))
    assert seen[0] > PART_BYTES
    assert session.download("again") == source.read_bytes()
    source.write_bytes(os.urandom(SIZE))
    os.utime(source, (1, 1))  # another version of the file is another upload
    session.upload("again", source)
    assert session.download("again") == source.read_bytes()
    awkward = "-\udcff" + "\u9577" * 80  # like an option, no UTF-8, and near the most bytes that a name may have
    assert session.upload(awkward, source).path == awkward
    session.remove_file(awkward)


@pytest.mark.usefixtures("small")
def test_what_has_no_size_is_uploaded_to_its_end(session: Session, workspace: str, tmp_path: Path) -> None:
    content, pipe = os.urandom(SIZE), tmp_path / "pipe"
    assert session.upload("stream", io.BytesIO(content)).size == SIZE
    assert session.download("stream") == content
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_bytes, args=(content,))
    writer.start()
    assert session.upload("pipe", pipe).size == SIZE
    writer.join(120)
    assert session.download("pipe") == content
    assert session.upload("empty", io.BytesIO()).size == 0
    client = session.client
    assert client.workspace_upload(workspace, "f", io.BytesIO(content), if_none_match="*").size == SIZE
    assert client.workspace_download(workspace, "f") == content
    assert client.workspace_upload(workspace, "bytes", content).size == SIZE
    assert client.workspace_download(workspace, "bytes") == content


@pytest.mark.usefixtures("small")
def test_an_upload_goes_on_after_the_service_was_killed(
    make_service: Callable[..., RunningService], source: Path
) -> None:
    service, seen = make_service(), list[int]()

    def kill(done: int, _size: int | None) -> None:
        if done > 1_500_000 and not seen:
            seen.append(0)
            service.kill()

    with service.client() as client:
        session_id = client.start_session().id
        with pytest.raises(ConnectionFailed):
            client.upload(session_id, "data", source, on_progress=kill)
    service.start()
    with service.client() as client:
        seen.clear()
        client.upload(session_id, "data", source, on_progress=lambda done, _size: seen.append(done))
        assert seen[0] > PART_BYTES
        assert client.download(session_id, "data") == source.read_bytes()
        client.stop_session(session_id)
    assert list((service.data_dir / "state" / "uploads").iterdir()) == []


def measure_peak(service: RunningService) -> int:
    """The most memory that the service's process has had."""
    rows = Path(f"/proc/{service.service_pid}/status").read_text().splitlines()
    return next(int(row.split()[1]) * 1024 for row in rows if row.startswith("VmHWM:"))


@pytest.mark.long
def test_300_megabytes_take_no_memory_of_the_service(service: RunningService, session: Session, tmp_path: Path) -> None:
    source = tmp_path / "large"
    with source.open("wb") as file:
        for _ in range(LONG_SIZE // PART_BYTES):
            file.write(os.urandom(PART_BYTES))
    seen: list[int] = []

    def give_up(done: int, _size: int | None) -> None:
        if done > LONG_SIZE // 2:
            raise InterruptedError

    with pytest.raises(InterruptedError):
        session.upload("large", source, on_progress=give_up)
    before = measure_peak(service)
    assert session.upload("large", source, on_progress=lambda done, _size: seen.append(done)).size == LONG_SIZE
    assert uploads.PART_BYTES < seen[0] <= LONG_SIZE // 2 + uploads.PART_BYTES + CHUNK
    assert measure_peak(service) - before < 50_000_000
    back = session.download("large", tmp_path / "back")
    assert back.read_bytes() == source.read_bytes()
    session.remove_file("large")
