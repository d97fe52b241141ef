"""What a guest lists of its workspace is held to what a workspace can be."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import cast

import pytest

from kernels.errors import GuestRefused, SandboxFailed
from kernels.guest_client.answers import FileStat
from kernels.guest_client.client import GuestClient
from kernels.sandboxed.workspace_copy import (
    MOST_NAMES,
    MOST_TOGETHER,
    SMALL_BYTES,
    TOGETHER_BYTES,
    WorkspaceCopy,
    _find_gone,
    _in_thread,
    _remove,
    check,
    share_out,
)

GUARD_SECONDS = 120
PIECE_BYTES = 64 * 1024


def entry(path: str, kind: str = "file", size: int = 1) -> FileStat:
    return FileStat(path, kind, size, 0.0, version="1", mode=0o644)


def test_a_tree_is_taken_as_it_is_listed() -> None:
    listed = [entry("workspace/a", "directory"), entry("workspace/a/b"), entry("workspace/l", "link")]
    assert list(check(listed, 10)) == ["a", "a/b", "l"]


@pytest.mark.parametrize(
    "listed",
    [
        [entry("etc/passwd")],
        [entry("workspace")],
        [entry("workspace/../etc")],
        [entry("workspace/a/./b")],
        [entry("workspace//etc")],
        [entry("workspace/a\0b")],
        [entry("workspace/a"), entry("workspace/a")],
        [entry("workspace/a/b")],
        [entry("workspace/a", "link"), entry("workspace/a/b")],
        [entry("workspace/a"), entry("workspace/a/b")],
        [entry("workspace/a", size=11)],
        [entry("workspace/a", size=6), entry("workspace/b", size=6)],
        [entry("workspace/é", "link"), entry("workspace/\udcc3\udca9", "directory"), entry("workspace/\udcc3\udca9/x")],
        [entry("workspace/\ud800", "directory")],
    ],
    ids=range(14),
)
def test_what_is_no_tree_of_a_workspace_is_refused(listed: list[FileStat]) -> None:
    with pytest.raises(SandboxFailed):
        check(listed, 10)


def test_more_names_than_a_workspace_may_have_are_refused() -> None:
    with pytest.raises(SandboxFailed):
        check([entry(f"workspace/{number}", size=0) for number in range(MOST_NAMES)], 10)


def test_what_is_gone_or_of_another_kind_goes_and_no_link_is_followed(tmp_path: Path) -> None:
    outside, top = tmp_path / "outside", tmp_path / "copy"
    (outside / "kept").mkdir(parents=True)
    (top / "gone" / "deep").mkdir(parents=True)
    (top / "a").symlink_to(outside)
    (top / "b").write_text("a file that becomes a directory")
    (top / "c").write_text("stays")
    wanted = check([entry("workspace/a", "directory"), entry("workspace/b", "directory"), entry("workspace/c")], 100)
    _remove(_find_gone(top, wanted, 100))
    assert sorted(each.name for each in top.iterdir()) == ["c"]
    assert (outside / "kept").is_dir()


class ScriptedGuest:
    """Lists what it is told to, as no guest of a real workspace does on demand; what is `closed` it does not read."""

    def __init__(self, files: dict[str, bytes]) -> None:
        self.files = files
        self.directories: dict[str, bool] = {}
        """By name, whether it says that it could look into it."""
        self.closed: set[str] = set()
        self.read: list[str] = []
        self.alone = False
        """Whether it gives one file after another, as an earlier release does."""
        self.asked = 0

    async def list_tree(self, path: str, **_how: object) -> list[FileStat]:
        listed = [
            FileStat(f"{path}/{name}", "directory", 0, 1.5, version="d", mode=0o755, unread=not read)
            for name, read in self.directories.items()
        ]
        return listed + [
            FileStat(f"{path}/{name}", "file", len(content), 1.5, version=content.hex(), mode=0o755)
            for name, content in self.files.items()
        ]

    async def read_files(self, paths: list[str]) -> list[bytes | GuestRefused]:
        if self.alone:
            raise GuestRefused(404, "not_found", "no such route")
        self.asked += 1
        found: list[bytes | GuestRefused] = []
        for path in paths:
            name = path.partition("/")[2]
            self.read.append(path)
            refused = GuestRefused(403, "permission_denied", "Permission denied")
            found.append(refused if name in self.closed else self.files[name])
        return found

    async def open_file(self, path: str, **_how: object) -> tuple[FileStat, AsyncGenerator[bytes]]:
        self.read.append(path)
        name = path.partition("/")[2]
        if name in self.closed:
            raise GuestRefused(403, "permission_denied", "Permission denied")

        async def pieces() -> AsyncGenerator[bytes]:
            for begin in range(0, len(self.files[name]), PIECE_BYTES):
                yield self.files[name][begin : begin + PIECE_BYTES]

        return entry(path), pieces()


def make(guest: ScriptedGuest, tmp_path: Path, most_bytes: int = 100) -> tuple[WorkspaceCopy, Path]:
    top = tmp_path / "of-the-sandbox" / "workspace"
    top.mkdir(parents=True)
    return WorkspaceCopy(cast("GuestClient", guest), str(top), most_bytes), top


@pytest.mark.parametrize("alone", [False, True])
def test_many_small_files_come_together_or_from_an_earlier_guest_one_by_one(alone: bool, tmp_path: Path) -> None:
    async def run() -> None:
        files = {f"{number:03}": b"" for number in range(MOST_TOGETHER * 2 + 1)} | {"last": b"x"}
        guest = ScriptedGuest(files)
        guest.alone, guest.closed = alone, {"001"}
        copy, top = make(guest, tmp_path)
        copy.go_on()
        await copy.pull()
        assert {each.name: each.read_bytes() for each in top.iterdir()} == {
            name: content for name, content in files.items() if name != "001"
        }
        assert list(copy.unknown) == [b"001"]
        assert guest.asked == (0 if alone else 3)

    asyncio.run(run())


def test_a_hole_takes_no_room_in_the_copy(tmp_path: Path) -> None:
    async def run() -> None:
        files = {"hole": bytes(64 << 20), "both": b"x" + bytes(64 << 20) + b"y" + bytes(1 << 20)}
        copy, top = make(ScriptedGuest(files), tmp_path, 1 << 30)
        copy.go_on()
        await copy.pull()
        assert all((top / name).read_bytes() == content for name, content in files.items())
        assert sum((top / name).stat().st_blocks * 512 for name in files) < 1 << 20

    asyncio.run(run())


def test_groups_hold_no_more_than_an_answer(tmp_path: Path) -> None:
    files = {f"{number}": entry(f"workspace/{number}", size=SMALL_BYTES) for number in range(100)}
    groups = list(share_out(files))
    assert [name for group in groups for name in group] == list(files)
    assert {sum(each.size for each in group.values()) for group in groups[:-1]} == {TOGETHER_BYTES}


def test_what_changed_is_fetched_and_what_did_not_is_not(tmp_path: Path) -> None:
    async def run() -> None:
        guest = ScriptedGuest({"a": b"one", "b": b"two"})
        copy, top = make(guest, tmp_path)
        await copy.pull()
        assert list(top.iterdir()) == []  # it is not live yet: what is laid out comes from here
        assert not copy.whole
        copy.go_on()
        await copy.pull()
        guest.files = {"a": b"new", "b": b"two"}
        await copy.pull()
        assert guest.read == ["workspace/a", "workspace/b", "workspace/a"]
        assert (top / "a").read_bytes() == b"new"
        assert ((top / "a").stat().st_mode & 0o777, (top / "a").stat().st_mtime) == (0o755, 1.5)
        guest.files = {}
        assert await copy.finish(GUARD_SECONDS) == ""
        guest.files = {"a": b"after the end"}
        await copy.pull()
        assert sorted(each.name for each in top.parent.rglob("*")) == ["whole", "workspace"]

    asyncio.run(run())


def test_a_list_that_is_the_last_one_again_is_not_compared_with_the_copy(tmp_path: Path) -> None:
    async def run() -> None:
        guest = ScriptedGuest({})
        copy, top = make(guest, tmp_path)
        (top / "of-an-earlier-process").touch()
        copy.go_on()
        await copy.pull()
        assert list(top.iterdir()) == []
        (top / "put-here-by-the-test").touch()
        await copy.pull()
        assert [each.name for each in top.iterdir()] == ["put-here-by-the-test"]
        guest.files, guest.closed = {"a": b"closed"}, {"a"}
        await copy.pull()
        assert list(top.iterdir()) == []
        guest.closed = set()
        await copy.pull()  # the same list, of which something had not come
        assert [each.name for each in top.iterdir()] == ["a"]

    asyncio.run(run())


def test_what_nobody_can_look_at_is_unknown_and_kept(tmp_path: Path) -> None:
    async def run() -> None:
        guest = ScriptedGuest({"d/a": b"in a directory", "d/e/b": b"deep", "f": b"one"})
        guest.directories = {"d": True, "d/e": True}
        copy, top = make(guest, tmp_path)
        copy.go_on()
        await copy.pull()
        assert (copy.unknown, copy.whole) == ({}, True)
        guest.files, guest.directories, guest.closed = {"f": b"two"}, {"d": False}, {"f"}
        await copy.pull()
        assert (top / "d/a").read_bytes() + (top / "d/e/b").read_bytes() == b"in a directorydeep"
        assert (top / "f").read_bytes() == b"one"
        assert list(copy.unknown) == [b"d", b"f"]
        guest.directories, guest.closed = {"d": True}, set()
        await copy.pull()
        assert (list((top / "d").iterdir()), (top / "f").read_bytes(), copy.unknown) == ([], b"two", {})

    asyncio.run(run())


def test_what_lies_deeper_than_a_path_reaches_is_left_out_and_told(tmp_path: Path) -> None:
    deep = ["/".join(["d" * 200] * depth) for depth in range(1, 30)]

    async def run() -> None:
        guest = ScriptedGuest({"f": b"one", f"{deep[-1]}/lost": b"two"})
        guest.directories = dict.fromkeys(deep, True)
        copy, top = make(guest, tmp_path)
        copy.go_on()
        await copy.pull()
        assert (top / "f").read_bytes() == b"one"
        (first,) = copy.unknown
        assert len(f"{top}/{first.decode()}") > 4095 >= len(f"{top}/{first.decode().rpartition('/')[0]}")
        assert (top / first.decode()).parent.is_dir()
        assert copy.whole

    asyncio.run(run())


def test_what_is_kept_as_nobody_can_look_at_it_counts(tmp_path: Path) -> None:
    """Else a guest would fill the service's disk: it lists a directory, closes it, and goes on with the next one."""

    async def run() -> None:
        guest = ScriptedGuest({"d/a": b"x" * 60})
        guest.directories = {"d": True}
        copy, top = make(guest, tmp_path)
        copy.go_on()
        await copy.pull()
        guest.directories, guest.files = {"d": False}, {"b": b"x" * 41}
        with pytest.raises(SandboxFailed, match="101 bytes"):
            await copy.pull()
        guest.directories, guest.files, guest.closed = {"d": True}, {"d/a": b"", "b": b"x" * 41}, {"d/a"}
        with pytest.raises(SandboxFailed, match="101 bytes"):
            await copy.pull()
        assert [each.name for each in top.rglob("*")] == ["d", "a"]

    asyncio.run(run())


def test_a_last_fetch_that_fails_says_why(tmp_path: Path) -> None:
    async def run() -> None:
        copy, _ = make(ScriptedGuest({"too-large": b"x" * 101}), tmp_path)
        copy.go_on()
        assert "more than 100 bytes" in await copy.finish(GUARD_SECONDS)

    asyncio.run(run())


def test_it_is_brought_up_to_date_while_every_thread_of_the_loop_waits_for_that(tmp_path: Path) -> None:
    async def run() -> None:
        loop = asyncio.get_running_loop()
        loop.set_default_executor(ThreadPoolExecutor(1))
        copy, top = make(ScriptedGuest({"a": b"one"}), tmp_path)
        copy.go_on()
        await asyncio.to_thread(lambda: asyncio.run_coroutine_threadsafe(copy.pull(), loop).result(GUARD_SECONDS))
        assert (top / "a").read_bytes() == b"one"

    asyncio.run(run())


def test_who_is_cancelled_waits_for_what_a_thread_still_writes() -> None:
    """Else the next pull would write to the same unfinished file beside it."""
    begun, may_end, over = threading.Event(), threading.Event(), threading.Event()

    def write() -> None:
        begun.set()
        may_end.wait(GUARD_SECONDS)
        over.set()

    async def cancel() -> None:
        writing = asyncio.ensure_future(_in_thread(write))
        await asyncio.to_thread(begun.wait, GUARD_SECONDS)
        writing.cancel()
        await asyncio.wait({writing}, timeout=0.05)
        assert not writing.done()
        may_end.set()
        await asyncio.wait({writing}, timeout=GUARD_SECONDS)
        assert writing.cancelled()
        assert over.is_set()

    asyncio.run(cancel())
