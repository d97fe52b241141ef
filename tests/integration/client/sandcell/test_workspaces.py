"""Durable files through the client: shown, read in part, written on condition, packed, copied, removed."""

from __future__ import annotations

import asyncio
import hashlib
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from sandcell import AsyncClient, Client, Conflict, NotFound
from tests.running_service import RunningService

TEN = b"0123456789"


@pytest.fixture(scope="module")
def client(service: RunningService) -> Iterator[Client]:
    with service.client() as found:
        yield found


@pytest.fixture(scope="module")
def workspaces(client: Client) -> tuple[str, str]:
    """Two whose sessions have ended, the first with a file of ten bytes."""
    found = []
    for _ in range(2):
        with client.session() as session:
            found.append(session.info.workspace_id)
    client.workspace_upload(found[0], "out/\udcfften", TEN)
    return found[0], found[1]


def test_a_file_is_shown_and_read_in_part(client: Client, workspaces: tuple[str, str]) -> None:
    shown = client.workspace_stat(workspaces[0], "out/\udcfften")
    assert (shown.kind, shown.size, shown.sha256) == ("file", 10, hashlib.sha256(TEN).hexdigest())
    for start, end, content in ((2, 5, b"234"), (7, None, b"789"), (None, 2, b"89"), (None, None, TEN), (5, 5, b"")):
        assert client.workspace_read(workspaces[0], "out/\udcfften", start, end) == content


def test_a_write_on_condition_is_sent_once(client: Client, workspaces: tuple[str, str]) -> None:
    one = workspaces[0]
    client.workspace_upload(one, "once", b"1", if_none_match="*")
    for condition in ({"if_none_match": "*"}, {"if_match": f'"{hashlib.sha256(b"2").hexdigest()}"'}):
        with pytest.raises(Conflict) as refused:
            client.workspace_upload(one, "once", b"2", **condition)
        assert refused.value.code == "precondition_failed"
    client.workspace_upload(one, "once", b"3", if_match=client.workspace_stat(one, "once").etag)
    assert client.workspace_download(one, "once") == b"3"
    client.workspace_remove(one, "once")


def test_copies_archives_and_removals(client: Client, workspaces: tuple[str, str], tmp_path: Path) -> None:
    one, two = workspaces
    assert client.workspace_copy(one, two, ["out"], to_path="from", dry_run=True).file_count == 1
    assert client.workspace_files(two) == []
    done = client.workspace_copy(one, two, ["out"], to_path="from")
    assert done.paths == ["from/out", "from/out/\udcfften"]
    archive = zipfile.ZipFile(client.workspace_archive_to(two, tmp_path / "a.zip", "from/out"))
    assert archive.namelist() == ["from/out/", "from/out/%FFten"]
    assert client.workspace_would_remove(two, "from", recursive=True).file_count == 1
    with pytest.raises(NotFound):
        client.workspace_link(two, "absent")
    assert client.delete_workspace(two, dry_run=True).file_count == 1
    assert client.delete_workspace(two).dry_run is False
    with pytest.raises(NotFound):
        client.workspace_files(two)


def test_without_blocking(service: RunningService, workspaces: tuple[str, str], tmp_path: Path) -> None:
    async def look() -> None:
        async with AsyncClient(service.url, service.token) as client:
            assert (await client.workspace_stat(workspaces[0], "out")).kind == "directory"
            assert zipfile.is_zipfile(await client.workspace_archive_to(workspaces[0], tmp_path / "b.zip"))

    asyncio.run(look())
