"""Every kind of hostile content, from a directory to each store and back; nothing outside is read or written."""

# ruff: noqa: PTH102, PTH211
from __future__ import annotations

import os
import socket
import stat
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.integration.workspace_sync.hostile_trees import Canary, Workspace, picture
from workspace_sync import ObjectStore
from workspace_sync.stores.local import LocalStore

Plant = Callable[[Path, Path], None]
NAMES = [
    *(b"...", b". ", b" .", b"..a", b"%2e%2e", b"%2F", b"a%2Fb", b"%lo", b"%long", b"manifest.json", b"CON", b"nul"),
    *(b"a ", b" a", b"A", b"e\xcc\x81", b"\xc3\xa9", b"\xe2\x80\xae", b"\xef\xbb\xbf", b"\xed\xa0\x80", b"-rf", b"~"),
    *(b"n" * 255, b"\xff" * 255, b"\xf0\x9f\x90\x9a" * 63, b"x\r\nX-Header: y", b"?versionId=1", b"#f", b".incoming"),
]


def links(live: Path, outside: Path) -> None:
    """Links to a file, to directories, to themselves, to nothing, up and out, of bytes that are no text."""
    (live / "to-file").symlink_to(outside / "file")
    (live / "to-directory").symlink_to(outside)
    (live / "to-root").symlink_to("/")
    (live / "up").symlink_to("../../../../../../../../etc/passwd")
    (live / "loop").symlink_to("loop")
    (live / "this").symlink_to(".")
    (live / "process").symlink_to("/proc/self/environ")
    (live / "memory").symlink_to("/proc/self/fd/0")
    os.symlink(b"\xff\n%2F", bytes(live) + b"/bytes")
    os.symlink(b"x" * 4095, bytes(live) + b"/long")


def special_files(live: Path, outside: Path) -> None:
    """What is no file: opening one could wait for ever, or do something."""
    os.mkfifo(live / "fifo")
    os.mknod(live / "null", stat.S_IFCHR | 0o666, os.makedev(1, 3))
    os.mknod(live / "zero", stat.S_IFCHR | 0o666, os.makedev(1, 5))
    os.mknod(live / "disk", stat.S_IFBLK | 0o666, os.makedev(7, 200))
    os.mknod(live / "socket", stat.S_IFSOCK | 0o777)
    (live / "file").write_text("beside them")


def hard_links(live: Path, outside: Path) -> None:
    """One file of many names, in several directories."""
    (live / "a").mkdir()
    (live / "one").write_bytes(b"shared")
    for name in ("two", "a/three", "a/four"):
        os.link(live / "one", live / name)


def sparse_files(live: Path, outside: Path) -> None:
    """Files that are mostly holes."""
    with (live / "hole").open("wb") as file:
        file.truncate(3 << 20)
    with (live / "islands").open("wb") as file:
        for place in (0, 1 << 20, (3 << 20) - 4):
            file.seek(place)
            file.write(b"land")


def closed(live: Path, outside: Path) -> None:
    """Files and directories without any permission, and with more than are kept."""
    (live / "directory").mkdir()
    (live / "directory/file").write_text("in a closed one")
    (live / "file").write_text("closed")
    (live / "file").chmod(0)
    (live / "directory").chmod(0)
    (live / "bits").write_text("setuid")
    (live / "bits").chmod(0o7755)


def names(live: Path, outside: Path) -> None:
    """Names of every byte, such as mean something to stores, and pairs that differ in little."""
    top = bytes(live)
    for start in range(0, 256, 16):
        every = bytes(set(range(start, start + 16)) - {0, ord("/")})
        _write(top + b"/" + every, every)
        _write(top + b"/" + every[:1], every)
    for name in NAMES:
        os.mkdir(top + b"/in-" + name[:252])
        _write(top + b"/in-" + name[:252] + b"/" + name, name)


def times(live: Path, outside: Path) -> None:
    """Times before the first and after the last of most programs."""
    for number, moment in enumerate((0, -1, -(2**31) * 10**9, 2**33 * 10**9 + 7, 1)):
        (live / f"file-{number}").write_text("x")
        (live / f"directory-{number}").mkdir()
        (live / f"link-{number}").symlink_to("x")
        for kind in ("file", "directory", "link"):
            os.utime(live / f"{kind}-{number}", ns=(1, moment), follow_symlinks=False)


def _write(path: bytes, content: bytes) -> None:
    with open(path, "wb") as file:  # noqa: PTH123 - bytes
        file.write(content)


KINDS = [links, special_files, hard_links, sparse_files, closed, names, times]


@pytest.fixture
def workspace(store: ObjectStore, executor: ThreadPoolExecutor, tmp_path: Path) -> Workspace:
    return Workspace(store, executor, tmp_path)


@pytest.fixture
def local(executor: ThreadPoolExecutor, tmp_path: Path) -> Workspace:
    return Workspace(LocalStore(str(tmp_path / "store")), executor, tmp_path)


@pytest.mark.parametrize("plant", KINDS, ids=lambda plant: plant.__name__)
def test_it_comes_back_as_it_was_and_nothing_outside_is_touched(
    plant: Plant, workspace: Workspace, canary: Canary
) -> None:
    live = workspace.directory()
    plant(live, canary.directory)
    before = picture(live)
    report = workspace.flush(live)
    assert report.skipped == ()
    assert report.special_files == (5 if plant is special_files else 0)
    again, restored = workspace.restore()
    assert restored.skipped == ()
    assert picture(again) == picture(live) == before
    canary.check(workspace.store)


def test_each_name_of_a_hard_link_becomes_a_file_of_its_own(local: Workspace) -> None:
    live = local.directory()
    hard_links(live, local.top)
    local.flush(live)
    assert {"workspace/one", "workspace/two", "workspace/a/three", "workspace/a/four"} < local.objects()
    again, _ = local.restore()
    assert {path.stat().st_nlink for path in again.rglob("*") if path.is_file()} == {1}
    (again / "one").write_bytes(b"changed")
    assert (again / "two").read_bytes() == b"shared"


def test_no_bit_that_lends_rights_comes_back(local: Workspace) -> None:
    live = local.directory()
    for bits, name in ((0o4755, "setuid"), (0o2755, "setgid"), (0o1777, "sticky")):
        (live / name).write_text("x")
        (live / name).chmod(bits)
        (live / f"{name}-directory").mkdir()
        (live / f"{name}-directory").chmod(bits)
    local.flush(live)
    again, _ = local.restore()
    assert {path.stat().st_mode & 0o7000 for path in again.iterdir()} == {0}


def test_a_kind_that_changes_is_followed_both_ways(workspace: Workspace, canary: Canary) -> None:
    """A name that is a file, then a directory, a link, a pipe, a file again."""
    live = workspace.directory()
    thing = live / "thing"

    def file() -> None:
        thing.write_text("file")

    def directory() -> None:
        thing.unlink()
        thing.mkdir()
        (thing / "inner").write_text("inner")

    def link() -> None:
        (thing / "inner").unlink()
        thing.rmdir()
        thing.symlink_to(canary.directory)

    def pipe() -> None:
        thing.unlink()
        os.mkfifo(thing)

    def file_again() -> None:
        thing.unlink()
        thing.write_text("again")

    for change in (file, directory, link, pipe, file_again):
        change()
        workspace.flush(live)
        again, _ = workspace.restore()
        assert picture(again) == picture(live), change.__name__
    assert workspace.objects() == {"manifest.json", "workspace/thing"}
    canary.check(workspace.store)


def test_a_socket_that_listens_is_not_spoken_to(local: Workspace, short_directory: Path) -> None:
    live = local.directory()
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(short_directory / "s"))
        server.listen()
        server.settimeout(0.0)
        (short_directory / "s").rename(live / "s")
        assert local.flush(live).special_files == 1
        with pytest.raises(BlockingIOError):
            server.accept()


def test_a_writer_that_waits_at_a_pipe_goes_on_waiting(local: Workspace) -> None:
    live = local.directory()
    os.mkfifo(live / "pipe")
    reader = os.open(live / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    writer = os.open(live / "pipe", os.O_WRONLY | os.O_NONBLOCK)
    try:
        os.write(writer, b"for somebody else")
        local.flush(live)
        assert os.read(reader, 100) == b"for somebody else"
    finally:
        os.close(reader)
        os.close(writer)


def test_the_canary_notices_what_it_is_there_for(local: Workspace, canary: Canary) -> None:
    for touch in ((canary.directory / "deep/file").read_bytes, (canary.directory / "new").touch):
        touch()
        with pytest.raises(AssertionError):
            canary.check(local.store)
