"""Archives of durable files, on every store: all that fits is inside, and what is not is listed."""

from __future__ import annotations

import io
import os
import stat
import threading
import tracemalloc
import zipfile
from pathlib import Path

import pytest

from workspace_sync import ArchiveLimits, DurableWorkspace, ObjectStore
from workspace_sync.entry import Entry
from workspace_sync.errors import ObjectNotFound, StoreUnavailable
from workspace_sync.mirroring.durable import DurableFiles
from workspace_sync.stores.local import LocalStore
from workspace_sync.workspaces.archive import Archive

PREFIX = "workspaces/sessions/one"
MOST = 100_000


@pytest.fixture
def local(tmp_path: Path) -> LocalStore:
    return LocalStore(str(tmp_path / "store"))


@pytest.fixture
def limits(tmp_path: Path) -> ArchiveLimits:
    held = tmp_path / "held"
    held.mkdir()
    return ArchiveLimits(MOST, str(held))


def fill(store: ObjectStore, files: dict[bytes, bytes], *others: Entry) -> DurableWorkspace:
    """A workspace with these files, in one manifest."""
    workspace, durable = DurableWorkspace(store, PREFIX), DurableFiles(store, PREFIX, 1 << 20)
    for path, data in files.items():
        workspace.put(path.decode("utf-8", "surrogateescape"), io.BytesIO(data), len(data))
    entries = durable.load().entries
    entries.update({entry.path: entry for entry in others})
    durable.write_manifest(entries.values())
    return workspace


def read(archive: Archive) -> zipfile.ZipFile:
    opened = zipfile.ZipFile(io.BytesIO(b"".join(archive)))
    assert opened.testzip() is None
    return opened


def test_all_that_fits_is_inside(store: ObjectStore, limits: ArchiveLimits) -> None:
    big = os.urandom(MOST)
    workspace = fill(
        store,
        {b"out/plot.png": b"png", b"out/deep/big": big, b"too big": bytes(MOST + 1), b"empty": b"", b"\xff": b"bytes"},
        Entry(b"nothing in it", "directory", mode=0o050),
        Entry(b"out/link", "link", target=b"../../etc//passwd"),
        Entry(b"out/plot.png/x", "link", target=b"x"),
    )
    archive = read(workspace.archive("", limits))
    assert sorted(archive.namelist()) == sorted(
        ["%FF", "SKIPPED.txt", "empty", "nothing in it/", "out/deep/", "out/deep/big", "out/", "out/plot.png/"]
    )
    assert archive.read("out/deep/big") == big
    assert archive.read("empty") == b""
    assert archive.read("%FF") == b"bytes"
    assert stat.S_IMODE(archive.getinfo("nothing in it/").external_attr >> 16) == 0o750
    told = archive.read("SKIPPED.txt").decode().splitlines()
    assert "out/link\ta link to ../../etc//passwd" in told
    assert "too big\thas 100,001 bytes; files up to 100,000 are in here" in told
    assert list(Path(limits.directory).iterdir()) == []


def test_a_part_of_a_workspace(local: LocalStore, limits: ArchiveLimits) -> None:
    workspace = fill(local, {b"a/b/c": b"1", b"a/bc": b"2", b"d": b"3"})
    assert read(workspace.archive("a/b", limits)).namelist() == ["a/b/", "a/b/c"]
    assert read(workspace.archive("a/bc", limits)).namelist() == ["a/bc"]
    with pytest.raises(ObjectNotFound):
        workspace.archive("absent", limits)
    assert read(DurableWorkspace(local, "workspaces/sessions/none").archive("", limits)).namelist() == []


def test_what_vanishes_or_grows_meanwhile_is_told(local: LocalStore, limits: ArchiveLimits) -> None:
    workspace = fill(local, {b"a": os.urandom(MOST), b"b": b"gone soon", b"c": b"grows", b"d": b"stays"})
    archive = workspace.archive("", limits)
    local.delete([f"{PREFIX}/workspace/b"])
    local.put(f"{PREFIX}/workspace/c", io.BytesIO(bytes(MOST + 1)), MOST + 1)
    found = read(archive)
    assert found.namelist() == ["a", "d", "SKIPPED.txt"]
    told = found.read("SKIPPED.txt").decode()
    assert "b\twas removed while the archive was made" in told
    assert "c\thas grown beyond 100,000 bytes meanwhile" in told


def test_the_list_gets_a_name_of_its_own(local: LocalStore, limits: ArchiveLimits) -> None:
    workspace = fill(local, {b"skipped.TXT": b"mine", b"SKIPPED-1.txt": b"too"}, Entry(b"l", "link", target=b"x"))
    assert read(workspace.archive("", limits)).namelist() == ["SKIPPED-1.txt", "skipped.TXT", "SKIPPED-2.txt"]


def test_hostile_names_are_unpacked_below(local: LocalStore, limits: ArchiveLimits, tmp_path: Path) -> None:
    """Python's own unpacking and what a list of names shows agree on where each file goes."""
    names = [b"..\\..\\up", b"C:\\x", b"\\\\host\\share\\x", b"a\nb", b"NUL", b"dot.", b"-rf", b"~root", b"\xc0\xae"]
    outside = tmp_path / "unpacked"
    outside.mkdir()
    archive = read(fill(local, dict.fromkeys(names, b"x")).archive("", limits))
    archive.extractall(outside)
    assert len(list(outside.iterdir())) == len(names)
    assert all(name.isprintable() and "\\" not in name for name in archive.namelist())


def test_a_store_that_goes_away_cuts_the_archive_off(local: LocalStore, limits: ArchiveLimits) -> None:
    workspace = fill(local, {b"a": os.urandom(MOST), b"b": b"x"})

    class Away:
        def __getattr__(self, name: str) -> object:
            return getattr(local, name)

        def get(self, key: str, offset: int = 0, size: int | None = None) -> object:
            if key.endswith("/b"):
                raise StoreUnavailable("away")
            return local.get(key, offset, size)

    archive = DurableWorkspace(Away(), PREFIX).archive("", limits)  # type: ignore[arg-type]
    with pytest.raises(StoreUnavailable):
        b"".join(archive)
    archive.close()
    assert len(workspace.list()) == 2


def test_it_is_closed_while_somebody_reads(local: LocalStore, limits: ArchiveLimits) -> None:
    workspace = fill(local, {bytes([97 + number]): os.urandom(MOST) for number in range(8)})
    archive = workspace.archive("", limits)
    first = next(archive)
    reader = threading.Thread(target=lambda: list(archive))
    reader.start()
    archive.close()
    reader.join(120)
    archive.close()
    assert first
    assert list(archive) == []


def test_memory_does_not_grow_with_the_files(local: LocalStore, tmp_path: Path) -> None:
    size = 16 << 20
    workspace = fill(local, {f"file {number}".encode(): os.urandom(size) for number in range(2)})
    archive = workspace.archive("", ArchiveLimits(size, str(tmp_path)))
    tracemalloc.start()
    try:
        sent = sum(len(piece) for piece in archive)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert sent > 2 * size
    assert peak < 12 << 20
