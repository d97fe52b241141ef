"""What a flush finds and what it costs: nothing when nothing changed, and no change is missed."""

from __future__ import annotations

import asyncio
import io
import itertools
import mmap
import os
import random
import shutil
import subprocess
import threading
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, BinaryIO

import msgspec
import pytest

from tests.integration.workspace_sync.mirroring.test_mirror import picture
from workspace_sync import AsOf, DurableWorkspace, Mirror, TransferLimits
from workspace_sync.directory import tree
from workspace_sync.errors import StoreUnavailable
from workspace_sync.store import Written
from workspace_sync.stores.local import LocalStore

SECONDS = 120.0
PREFIX = "workspaces/sessions/s"
LARGE = 2 << 20


class NotedStore(LocalStore):
    """A local store that notes what is asked of it."""

    def __init__(self, root: str) -> None:
        super().__init__(root)
        self.written: list[str] = []
        self.copied: list[str] = []

    def put(self, key: str, source: BinaryIO, size: int) -> Written:
        self.written.append(key.removeprefix(PREFIX + "/").removeprefix("workspace/"))
        return super().put(key, source, size)

    def copy(self, source: str, target: str, *, etag: str = "", size: int | None = None) -> Written:
        self.copied.append(target.removeprefix(PREFIX + "/workspace/"))
        return super().copy(source, target, etag=etag)


class Place:
    """A live directory, its mirror and the store."""

    def __init__(self, live: Path, store: NotedStore, executor: ThreadPoolExecutor) -> None:
        self.live = live
        self.store = store
        self.executor = executor

    def mirror(self, **limits: Any) -> Mirror:
        quick = TransferLimits(settle_seconds=0.01, close_seconds=5.0, **limits)
        return Mirror(str(self.live), self.store, PREFIX, limits=quick, executor=self.executor)

    def manifest(self) -> dict[str, Any]:
        with self.store.get(f"{PREFIX}/manifest.json") as stream:
            decoded: dict[str, Any] = msgspec.json.decode(stream.read())
        return decoded

    def content(self, path: str) -> bytes:
        return b"".join(DurableWorkspace(self.store, PREFIX).open(path)[1])

    def run(self, scenario: Callable[[Mirror], Coroutine[Any, Any, None]], **limits: Any) -> None:
        """Carry out a scenario on a directory that has been restored from an empty store."""

        async def all_of_it() -> None:
            mirror = self.mirror(**limits)
            try:
                await mirror.restore()
                await scenario(mirror)
            finally:
                await mirror.aclose()

        asyncio.run(all_of_it())

    async def restored(self, directory: Path) -> Path:
        directory.mkdir()
        mirror = Mirror(str(directory), self.store, PREFIX, executor=self.executor)
        try:
            await mirror.restore()
        finally:
            await mirror.aclose()
        return directory


@pytest.fixture
def place(executor: ThreadPoolExecutor, tmp_path: Path) -> Place:
    (tmp_path / "live").mkdir()
    return Place(tmp_path / "live", NotedStore(str(tmp_path / "store")), executor)


def test_when_nothing_changed_the_store_is_as_of_the_next_execution_at_once(place: Place) -> None:
    async def scenario(mirror: Mirror) -> None:
        (place.live / "f").write_text("x")
        await mirror.wait_flushed(mirror.request_flush(AsOf("one", 1)), SECONDS)
        assert mirror.state.durable == AsOf("one", 1)
        del place.store.written[:]
        ticket = mirror.request_flush(AsOf("two", 2))
        state = mirror.state
        assert (state.durable, state.pending) == (AsOf("two", 2), False)
        assert (await mirror.wait_flushed(ticket, SECONDS)).execution == AsOf("two", 2)
        assert place.store.written == []
        (place.live / "f").write_text("y")
        ticket = mirror.request_flush(AsOf("three", 3))
        assert mirror.state.pending
        assert (await mirror.wait_flushed(ticket, SECONDS)).sent == 1

    place.run(scenario)


def test_the_manifest_names_the_newest_execution_that_had_ended_when_its_flush_began(place: Place) -> None:
    async def scenario(mirror: Mirror) -> None:
        (place.live / "f").write_text("x")
        first = mirror.request_flush(AsOf("one", 1))
        second = mirror.request_flush(AsOf("two", 2))
        await asyncio.gather(mirror.wait_flushed(first, SECONDS), mirror.wait_flushed(second, SECONDS))
        manifest = place.manifest()
        assert (manifest["version"], manifest["execution"]) == (2, {"id": "two", "number": 2})
        (place.live / "f").write_text("written by nobody's execution")
        await mirror.flush(SECONDS)
        assert place.manifest()["execution"] == {"id": "two", "number": 2}

    place.run(scenario)

    async def taken_up() -> None:
        mirror = place.mirror()
        try:
            await mirror.flush(SECONDS)
            assert mirror.state.durable == AsOf("two", 2)
        finally:
            await mirror.aclose()

    asyncio.run(taken_up())

    async def restored(mirror: Mirror) -> None:
        (place.live / "f").write_text("of the next session")
        await mirror.flush(SECONDS)
        assert place.manifest()["execution"] == {"id": "two", "number": 2}
        assert mirror.state.durable is None

    place.run(restored)


def test_what_changed_is_sent_alone(place: Place) -> None:
    async def scenario(mirror: Mirror) -> None:
        for name in ("a", "b", "c"):
            (place.live / name).mkdir()
            (place.live / name / "f").write_text(name)
        assert (await mirror.flush(SECONDS)).sent == 3
        del place.store.written[:]
        (place.live / "b/f").write_text("other")
        (place.live / "c/f").unlink()
        (place.live / "a/f").chmod(0o600)
        report = await mirror.flush(SECONDS)
        assert (report.files, report.sent, report.removed) == (2, 1, 1)
        assert place.store.written == ["b/f", "manifest.json"]
        modes = {entry["path"]: entry["mode"] for entry in place.manifest()["entries"]}
        assert modes["a/f"] == 0o600
        assert "c/f" not in modes

    place.run(scenario)


@pytest.mark.parametrize("watch", [True, False], ids=["watched", "walked"])
def test_a_change_that_keeps_size_and_time_is_found(place: Place, watch: bool) -> None:
    async def scenario(mirror: Mirror) -> None:
        file = place.live / "f"
        file.write_bytes(b"one")
        await mirror.flush(SECONDS)
        before = file.stat()
        file.write_bytes(b"two")
        os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
        await mirror.flush(SECONDS, final=True)
        assert place.content("f") == b"two"

    place.run(scenario, watch=watch)


@pytest.fixture
def memory_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system on which a second store through a memory map leaves no trace but the bytes themselves."""
    disk = tmp_path / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(disk)], check=True)
    yield disk
    subprocess.run(["umount", str(disk)], check=True)


def test_a_store_through_a_memory_map_that_leaves_no_trace_is_found_at_the_final_flush(
    place: Place, memory_disk: Path
) -> None:
    place.live = memory_disk

    async def scenario(mirror: Mirror) -> None:
        (place.live / "array").write_bytes(bytes(4096))
        with (place.live / "array").open("r+b") as file, mmap.mmap(file.fileno(), 4096) as mapped:
            for value in (b"1", b"2"):
                mapped[0:1] = value
                await asyncio.sleep(0.05)
                await mirror.flush(SECONDS)
            mapped[0:1] = b"3"
            await mirror.flush(SECONDS, final=True)
            assert place.content("array")[:1] == b"3"

    place.run(scenario)


def test_a_memory_map_that_is_closed_is_told(place: Place) -> None:
    async def scenario(mirror: Mirror) -> None:
        (place.live / "array").write_bytes(bytes(4096))
        await mirror.flush(SECONDS)
        with (place.live / "array").open("r+b") as file, mmap.mmap(file.fileno(), 4096) as mapped:
            mapped[0:1] = b"1"
        await mirror.flush(SECONDS)
        assert place.content("array")[:1] == b"1"

    place.run(scenario)


def test_what_was_renamed_or_copied_is_copied_in_the_store(place: Place) -> None:
    content = os.urandom(LARGE)

    async def scenario(mirror: Mirror) -> None:
        (place.live / "d").mkdir()
        (place.live / "d/large").write_bytes(content)
        (place.live / "d/small").write_bytes(b"small")
        await mirror.flush(SECONDS)
        del place.store.written[:]
        (place.live / "d").rename(place.live / "e")
        report = await mirror.flush(SECONDS)
        assert (report.sent, report.copied, report.removed) == (0, 2, 2)
        shutil.copy(place.live / "e/large", place.live / "twin")
        assert (await mirror.flush(SECONDS)).copied == 1
        (place.live / "twin").rename(place.live / "moved")
        assert (await mirror.flush(SECONDS, final=True)).copied == 1
        (place.live / "moved").rename(place.live / "e/small")
        assert (await mirror.flush(SECONDS)).copied == 1
        (place.live / "e/small").rename(place.live / "moved")
        (place.live / "e/small").write_bytes(b"small")
        assert (await mirror.flush(SECONDS)).copied == 1
        assert sorted(place.store.copied) == ["e/large", "e/small", "e/small", "moved", "moved", "twin"]
        assert [name for name in place.store.written if name not in {"manifest.json", *place.store.copied}] == []
        assert place.content("moved") == place.content("e/large") == content
        keys = {each.key.removeprefix(PREFIX + "/") for each in place.store.list(PREFIX + "/")}
        assert keys == {"manifest.json", "workspace/e/large", "workspace/e/small", "workspace/moved"}

    place.run(scenario)


def test_a_renamed_file_that_was_changed_in_secret_is_found_at_the_final_flush(place: Place) -> None:
    async def scenario(mirror: Mirror) -> None:
        (place.live / "f").write_bytes(b"one")
        await mirror.flush(SECONDS)
        before = (place.live / "f").stat()
        (place.live / "f").rename(place.live / "g")
        with (place.live / "g").open("r+b") as file:
            file.write(b"two")
        os.utime(place.live / "g", ns=(before.st_atime_ns, before.st_mtime_ns))
        await mirror.flush(SECONDS)
        await mirror.flush(SECONDS, final=True)
        assert place.content("g") == b"two"

    place.run(scenario)


def test_a_copy_in_the_store_that_somebody_else_changed_is_not_used(place: Place) -> None:
    content = os.urandom(LARGE)

    async def scenario(mirror: Mirror) -> None:
        (place.live / "f").write_bytes(content)
        await mirror.flush(SECONDS)
        DurableWorkspace(place.store, PREFIX).put("f", io.BytesIO(b"theirs"), 6)
        (place.live / "f").rename(place.live / "g")
        await mirror.flush(SECONDS)
        assert place.content("g") == content

    place.run(scenario)


def test_names_beyond_a_manifest_are_told_and_stay_durable(place: Place) -> None:
    async def scenario(mirror: Mirror) -> None:
        for name in ("a", "z"):
            (place.live / name).write_text(name)
        await mirror.flush(SECONDS)
        (place.live / "m").mkdir()
        for number in range(40):
            (place.live / f"m/{number:02}").touch()
        (place.live / "a").write_text("newer")
        report = await mirror.flush(SECONDS, final=True)
        assert [each.path.startswith("m/") for each in report.skipped] == [True]
        assert "do not fit into a manifest" in (mirror.state.error or "")
        assert (place.content("a"), place.content("z")) == (b"newer", b"z")
        shutil.rmtree(place.live / "m")
        assert (await mirror.flush(SECONDS)).skipped == ()
        assert mirror.state.error is None
        assert [entry["path"] for entry in place.manifest()["entries"]] == ["a", "z"]

    place.run(scenario, manifest_bytes=8_000)


def test_what_fails_is_still_owed_and_what_was_told_meanwhile_too(place: Place) -> None:
    async def scenario(mirror: Mirror) -> None:
        (place.live / "f").write_text("1")
        await mirror.flush(SECONDS)
        put, failures = place.store.put, itertools.count()

        def failing(key: str, source: BinaryIO, size: int) -> Written:
            if next(failures) < 2:
                raise StoreUnavailable("away for a moment")
            return put(key, source, size)

        place.store.put = failing  # type: ignore[method-assign]
        (place.live / "f").write_text("22")
        mirror.request_flush()
        await asyncio.sleep(0.1)
        (place.live / "g").write_text("333")
        await mirror.flush(SECONDS)
        assert (place.content("f"), place.content("g")) == (b"22", b"333")

    place.run(scenario, retry_seconds=0.05, retry_max_seconds=0.1)


def _replaced(live: Path) -> None:
    (live / "c").write_text("c")
    (live / "c").rename(live / "b")


def _made_again(live: Path) -> None:
    (live / "b").unlink()
    (live / "b").write_text("other")


def _renamed_and_removed(live: Path) -> None:
    (live / "b").rename(live / "c")
    (live / "c").unlink()


LOST: list[Callable[[Path], None]] = [
    lambda live: (live / "b").unlink(),
    _replaced,
    _made_again,
    _renamed_and_removed,
    lambda live: (live / "b").rename(live.parent / "elsewhere"),
]


@pytest.mark.parametrize("lose", LOST, ids=["removed", "replaced", "made again", "renamed, removed", "moved out"])
@pytest.mark.parametrize("few", [True, False], ids=["few names", "more"])
def test_what_was_written_under_another_name_that_is_lost_is_found(
    place: Place, lose: Callable[[Path], None], monkeypatch: pytest.MonkeyPatch, *, few: bool
) -> None:
    if not few:
        monkeypatch.setattr(tree, "FEW_NAMES", 0)

    async def scenario(mirror: Mirror) -> None:
        live = place.live
        (live / "a").write_text("old")
        await mirror.flush(SECONDS)
        (live / "b").hardlink_to(live / "a")
        (live / "b").write_text("new")
        lose(live)
        await mirror.flush(SECONDS)
        if not few:
            await mirror.flush(SECONDS, final=True)
        assert place.content("a") == b"new"

    place.run(scenario)


def test_no_change_is_missed_while_code_goes_on(place: Place, tmp_path: Path) -> None:
    done, dice = threading.Event(), random.Random(6)
    names = [f"{top}{inner}" for top in ("", "d/", "d/e/", "g/") for inner in "abc"]

    def one_change() -> None:
        path, other = place.live / dice.choice(names), place.live / dice.choice(names)
        match dice.randrange(8):
            case 0 | 1 | 2:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(str(dice.random()))
            case 3:
                path.unlink()
            case 4:
                path.rename(other)
            case 5:
                (place.live / "d").rename(place.live / f"g/{dice.randrange(3)}")
            case 6:
                path.hardlink_to(other)
            case _:
                shutil.rmtree(place.live / dice.choice(["d", "d/e", "g"]))

    def change() -> None:
        while not done.is_set():
            try:
                one_change()
            except OSError:
                continue

    async def scenario(mirror: Mirror) -> None:
        for number in range(4):
            done.clear()
            writer = threading.Thread(target=change)
            writer.start()
            try:
                for _ in range(8):
                    await mirror.flush(SECONDS)
            finally:
                done.set()
                writer.join()
            await mirror.flush(SECONDS)
            again = await place.restored(tmp_path / f"again-{number}")
            assert picture(again) == picture(place.live)

    place.run(scenario)
