"""A live directory to the store and back, on real stores: what is kept, what is left out, what an outage does."""

# ruff: noqa: PTH101, PTH102, PTH104, PTH108, PTH115, PTH118, PTH211, ASYNC221, E501
from __future__ import annotations

import asyncio
import io
import mmap
import os
import socket
import stat
import subprocess
import threading
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.doubles.faulty_proxy import FaultyProxy
from workspace_sync import DurableWorkspace, Mirror, ObjectStore, TransferLimits
from workspace_sync.errors import (
    DirectoryFull,
    DirectoryUnusable,
    FlushIncomplete,
    MirrorClosed,
    StoreFull,
)
from workspace_sync.stores.local import LocalStore
from workspace_sync.stores.s3.store import S3Store

DEADLINE_SECONDS = 120.0
QUICK = TransferLimits(retry_seconds=0.05, retry_max_seconds=0.1, close_seconds=2.0, restore_seconds=0.0)
Opener = Callable[..., S3Store]

names = st.one_of(
    st.sampled_from([b"data.csv", b".hidden", b"100%.txt", b"%long", b"a b", b" edge ", b"new\nline", b"\xff\xfe", b"...",
                     b"e\xcc\x81", "é".encode(), b"n" * 255, b"%" * 255, b"c++", b"a&b", b"<q>\"'", b"\x01", b"a\\b", b"*?"]),
    st.binary(min_size=1, max_size=12).map(lambda raw: raw.replace(b"/", b"_").replace(b"\0", b"_")),
).filter(lambda name: name not in (b".", b".."))  # fmt: skip
leaves = st.one_of(
    st.binary(max_size=40),
    st.builds(lambda target: ("link", target), names),
    st.just(("link", b"/etc/passwd")),
)
trees = st.recursive(
    st.dictionaries(names, leaves, max_size=4), lambda inner: st.dictionaries(names, leaves | inner, max_size=4), max_leaves=10
)  # fmt: skip


def plant(directory: bytes, tree: dict[bytes, object]) -> None:
    """Make a generated tree on disk, with modes and times of its own."""
    for name, node in tree.items():
        path = os.path.join(directory, name)
        if isinstance(node, dict):
            os.mkdir(path)
            plant(path, node)
            os.chmod(path, 0o751)
            os.utime(path, ns=(1, 1_600_000_000_123_456_789))
        elif isinstance(node, tuple):
            os.symlink(node[1], path)
        else:
            assert isinstance(node, bytes)
            Path(os.fsdecode(path)).write_bytes(node)
            os.chmod(path, 0o640 if len(node) % 2 else 0o755)
            os.utime(path, ns=(1, 1_500_000_000_000_000_001 + len(node)))


def picture(directory: Path) -> dict[bytes, tuple[object, ...]]:
    """Everything that must survive, by path."""
    found: dict[bytes, tuple[object, ...]] = {}
    for parent, directories, files in os.walk(os.fsencode(directory)):
        for name in directories + files:
            path = os.path.join(parent, name)
            status = os.lstat(path)
            content: object = None
            if stat.S_ISLNK(status.st_mode):
                content = os.readlink(path)
            elif stat.S_ISREG(status.st_mode):
                content = Path(os.fsdecode(path)).read_bytes()
            mode = stat.S_IMODE(status.st_mode)
            found[os.path.relpath(path, os.fsencode(directory))] = (mode, status.st_mtime_ns, content)
    return found


class Bench:
    """A store, a prefix in it, and directories mirrored to it one after another."""

    def __init__(self, store: ObjectStore, executor: ThreadPoolExecutor, top: Path) -> None:
        self.store = store
        self.executor = executor
        self.prefix = f"workspaces/sessions/{uuid.uuid4()}"
        self.top = top
        self.workspace = DurableWorkspace(store, self.prefix)

    def directory(self) -> Path:
        path = self.top / uuid.uuid4().hex
        path.mkdir()
        return path

    def mirror(self, directory: Path, limits: TransferLimits = QUICK, owner: tuple[int, int] | None = None) -> Mirror:
        return Mirror(str(directory), self.store, self.prefix, owner=owner, limits=limits, executor=self.executor)

    async def flush(self, directory: Path) -> None:
        """Flush a directory by a new mirror, as after a restart of the service."""
        mirror = self.mirror(directory)
        try:
            await mirror.flush(DEADLINE_SECONDS)
        finally:
            await mirror.aclose()

    async def restored(self, owner: tuple[int, int] | None = None) -> Path:
        """A fresh directory filled from the store."""
        directory = self.directory()
        mirror = self.mirror(directory, owner=owner)
        try:
            await mirror.restore()
        finally:
            await mirror.aclose()
        return directory

    def objects(self) -> set[str]:
        return {one.key.removeprefix(self.prefix + "/") for one in self.store.list(self.prefix + "/")}


@pytest.fixture
def bench(store: ObjectStore, executor: ThreadPoolExecutor, tmp_path: Path) -> Bench:
    return Bench(store, executor, tmp_path)


@pytest.fixture
def local(executor: ThreadPoolExecutor, tmp_path: Path) -> Bench:
    return Bench(LocalStore(str(tmp_path / "store")), executor, tmp_path)


@settings(max_examples=10, suppress_health_check=list(HealthCheck))
@given(first=trees, second=trees)
def test_any_tree_comes_back_and_any_change_follows(bench: Bench, first: dict, second: dict) -> None:
    round_bench = Bench(bench.store, bench.executor, bench.top)

    async def scenario() -> None:
        live = round_bench.directory()
        mirror = round_bench.mirror(live)
        try:
            await mirror.restore()
            for tree in (first, second):
                subprocess.run(["find", str(live), "-mindepth", "1", "-delete"], check=True)
                plant(os.fsencode(live), tree)
                await mirror.flush(DEADLINE_SECONDS)
                assert picture(await round_bench.restored()) == picture(live)
        finally:
            await mirror.aclose()

    asyncio.run(scenario())


def test_plain_files_are_plain_in_the_store_and_the_manifest_says_as_of_when(bench: Bench) -> None:
    live = bench.directory()
    (live / "out").mkdir()
    (live / "out/data 1.csv").write_text("1\n")
    asyncio.run(bench.flush(live))
    assert bench.objects() == {"manifest.json", "workspace/out/data 1.csv"}
    with bench.store.get(f"{bench.prefix}/manifest.json") as stream:
        manifest = msgspec.json.decode(stream.read())
    assert manifest["as_of"].endswith("Z")
    assert [entry["path"] for entry in manifest["entries"]] == ["out", "out/data 1.csv"]


def test_a_long_path_survives_under_a_hashed_key(bench: Bench) -> None:
    live = bench.directory()
    deep = live.joinpath(*["d" * 200] * 6)
    deep.mkdir(parents=True)
    (deep / "file").write_text("deep")
    asyncio.run(bench.flush(live))
    assert any(key.startswith("workspace/%long/") for key in bench.objects())
    assert picture(asyncio.run(bench.restored())) == picture(live)


def test_a_file_dropped_into_the_bucket_is_listed_and_restored(bench: Bench) -> None:
    live = bench.directory()
    (live / "mine").write_text("mine")
    asyncio.run(bench.flush(live))
    bench.store.put(f"{bench.prefix}/workspace/dropped/50%.txt", io.BytesIO(b"theirs"), 6)
    bench.store.delete([f"{bench.prefix}/workspace/mine"])
    assert [(one.path, one.size) for one in bench.workspace.list()] == [("dropped", 0), ("dropped/50%.txt", 6)]

    async def scenario() -> None:
        again = bench.directory()
        mirror = bench.mirror(again)
        try:
            await mirror.restore()
            assert (again / "dropped/50%.txt").read_text() == "theirs"
            await mirror.flush(DEADLINE_SECONDS)
        finally:
            await mirror.aclose()

    asyncio.run(scenario())
    assert bench.objects() == {"manifest.json", "workspace/dropped/50%25.txt"}


def test_restored_files_belong_to_the_owner(local: Bench) -> None:
    live = local.directory()
    (live / "d").mkdir()
    (live / "d/f").write_text("x")
    (live / "l").symlink_to("d")
    asyncio.run(local.flush(live))
    again = asyncio.run(local.restored(owner=(70123, 70124)))
    assert {(p.lstat().st_uid, p.lstat().st_gid) for p in again.rglob("*")} == {(70123, 70124)}


def test_special_files_are_neither_opened_nor_sent(local: Bench, short_directory: Path) -> None:
    live = local.directory()
    os.mkfifo(live / "fifo")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(short_directory / "socket"))
        (short_directory / "socket").rename(live / "socket")
        (live / "file").write_text("x")
        asyncio.run(local.flush(live))
    assert local.objects() == {"manifest.json", "workspace/file"}


def test_a_hostile_store_writes_nothing_outside(local: Bench) -> None:
    root = Path(local.top / "store" / local.prefix)
    (root / "workspace").mkdir(parents=True)
    outside = local.top / "outside"
    outside.mkdir()
    (root / "workspace/%2E%2E%2Fescaped").write_text("x")
    (root / "workspace/in").mkdir()
    (root / "workspace/in/file").write_text("x")
    row = {"mtime_ns": 1, "mode": 0o644}
    rows = [
        {"path": "../up", "kind": "link", "target": "x"}, {"path": "/abs", "kind": "directory"},
        {"path": "nul%00", "kind": "directory"}, {"path": "in", "kind": "link", "target": str(outside)},
        {"path": "l", "kind": "link", "target": str(outside)}, {"path": "l/d", "kind": "directory"},
    ]  # fmt: skip
    manifest = {"version": 1, "as_of": "", "entries": [row | one for one in rows]}
    (root / "manifest.json").write_bytes(msgspec.json.encode(manifest))
    directory = asyncio.run(local.restored())
    assert sorted(picture(directory)) == [b"in", b"in/file", b"l", b"l/d"]
    assert list(outside.iterdir()) == []
    assert not (local.top / "escaped").exists()
    assert not (local.top / "up").is_symlink()


def test_a_directory_swapped_for_a_link_never_leaks_what_it_points_to(local: Bench) -> None:
    secret = local.top / "secret"
    secret.mkdir()
    live = local.directory()
    for number in range(20):
        (secret / f"f{number}").write_text("SECRET")
    for place in ("real", "aside"):
        (live / place).mkdir()
    for number in range(20):
        (live / f"real/f{number}").write_text("public")
    done = threading.Event()

    def swap() -> None:
        while not done.is_set():
            os.rename(live / "real", live / "aside/real")
            os.symlink(secret, live / "real")
            os.unlink(live / "real")
            os.rename(live / "aside/real", live / "real")

    async def scenario() -> None:
        mirror = local.mirror(live)
        try:
            for _ in range(40):
                await mirror.flush(DEADLINE_SECONDS)
                for one in local.workspace.list():
                    if one.kind == "file":
                        assert b"".join(local.workspace.open(one.path)[1]) == b"public"
        finally:
            await mirror.aclose()

    swapper = threading.Thread(target=swap)
    swapper.start()
    try:
        asyncio.run(scenario())
    finally:
        done.set()
        swapper.join()


def test_a_file_that_never_rests_is_sent_whole(local: Bench) -> None:
    live = local.directory()
    size = 1 << 20
    (live / "busy").write_bytes(b"a" * size)
    done = threading.Event()

    def rewrite() -> None:
        with (live / "busy").open("r+b", buffering=0) as file:
            while not done.is_set():
                file.seek(0)
                file.write(b"b" * 4096)

    writer = threading.Thread(target=rewrite)
    writer.start()
    try:
        asyncio.run(local.flush(live))
    finally:
        done.set()
        writer.join()
    info, chunks = local.workspace.open("busy")
    assert info.size == len(b"".join(chunks)) == size


def test_a_store_through_a_memory_map_is_noticed_in_the_end(local: Bench) -> None:
    live = local.directory()
    (live / "array").write_bytes(bytes(8192))

    async def scenario() -> None:
        mirror = local.mirror(live)
        try:
            with (live / "array").open("r+b") as file, mmap.mmap(file.fileno(), 8192) as mapped:
                for value in (b"1", b"2", b"3"):
                    mapped[0:1] = value
                    await asyncio.sleep(0.05)
                    await mirror.flush(DEADLINE_SECONDS, final=True)
                    assert b"".join(local.workspace.open("array")[1])[:1] == value
        finally:
            await mirror.aclose()

    asyncio.run(scenario())


def test_deep_and_wide_trees_need_few_descriptors(local: Bench) -> None:
    live = local.directory()
    deep = os.open(live, os.O_RDONLY)
    for _ in range(500):
        os.mkdir("d", dir_fd=deep)
        below = os.open("d", os.O_RDONLY, dir_fd=deep)
        os.close(deep)
        deep = below
    os.close(deep)
    (live / "wide").mkdir()
    for number in range(2000):
        (live / f"wide/{number}").touch()
    asyncio.run(local.flush(live))
    assert local.workspace.summary().file_count == 2000
    again = asyncio.run(local.restored())
    assert len(list((again / "wide").iterdir())) == 2000
    for path in (live, again):
        subprocess.run(["rm", "-rf", str(path)], check=True)


def test_a_file_beyond_the_bound_is_reported_and_keeps_what_is_durable(local: Bench) -> None:
    live = local.directory()
    (live / "grows").write_text("small")

    async def scenario() -> None:
        mirror = local.mirror(live, TransferLimits(workspace_bytes=1000))
        try:
            await mirror.flush(DEADLINE_SECONDS)
            os.truncate(live / "grows", 1 << 40)
            (live / "other").write_text("fits")
            report = await mirror.flush(DEADLINE_SECONDS)
            assert [one.path for one in report.skipped] == ["grows"]
            assert "grows" in (mirror.state.error or "")
        finally:
            await mirror.aclose()

    asyncio.run(scenario())
    assert b"".join(local.workspace.open("grows")[1]) == b"small"
    assert b"".join(local.workspace.open("other")[1]) == b"fits"


def test_a_replaced_directory_does_not_empty_the_store(local: Bench) -> None:
    live = local.directory()
    (live / "kept").write_text("x")

    async def scenario() -> None:
        mirror = local.mirror(live)
        try:
            await mirror.flush(DEADLINE_SECONDS)
            live.rename(local.top / "moved")
            live.mkdir()
            with pytest.raises(FlushIncomplete, match="replaced"):
                await mirror.flush(DEADLINE_SECONDS)
            live.rmdir()
            with pytest.raises(FlushIncomplete, match="cannot be opened"):
                await mirror.flush(DEADLINE_SECONDS)
        finally:
            await mirror.aclose()
        with pytest.raises(MirrorClosed):
            mirror.request_flush()

    asyncio.run(scenario())
    assert [one.path for one in local.workspace.list()] == ["kept"]


def test_requests_that_are_cut_in_the_middle_lose_nothing(
    proxy: FaultyProxy, open_s3: Opener, executor: ThreadPoolExecutor, tmp_path: Path
) -> None:
    bench = Bench(open_s3(proxy.endpoint), executor, tmp_path)
    live = bench.directory()

    async def scenario() -> None:
        mirror = bench.mirror(live)
        try:
            (live / "before").write_text("1")
            await mirror.flush(DEADLINE_SECONDS)
            proxy.fault = "cut"
            proxy.drop()
            (live / "during").write_text("2")
            with pytest.raises(FlushIncomplete, match="during") as caught:
                await mirror.flush(5)
            assert caught.value.left == ("during",)
            while mirror.state.error is None:
                await asyncio.sleep(0.05)
            assert mirror.state.pending
            assert proxy.endpoint in mirror.state.error
            proxy.fault = "none"
            proxy.drop()
            await mirror.flush(DEADLINE_SECONDS)
            assert (mirror.state.pending, mirror.state.error) == (False, None)
        finally:
            await mirror.aclose()

    asyncio.run(scenario())
    assert [one.path for one in bench.workspace.list()] == ["before", "during"]


def test_a_download_torn_again_and_again_comes_whole(
    proxy: FaultyProxy, open_s3: Opener, executor: ThreadPoolExecutor, tmp_path: Path
) -> None:
    bench = Bench(open_s3(proxy.endpoint), executor, tmp_path)
    live = bench.directory()
    (live / "large").write_bytes(os.urandom(1 << 20))
    asyncio.run(bench.flush(live))
    proxy.drop()
    proxy.fault = "tear"
    assert picture(asyncio.run(bench.restored())) == picture(live)


def test_closing_in_an_outage_fails_who_waits(
    proxy: FaultyProxy, open_s3: Opener, executor: ThreadPoolExecutor, tmp_path: Path
) -> None:
    bench = Bench(open_s3(proxy.endpoint), executor, tmp_path)
    live = bench.directory()
    (live / "file").write_text("x")
    proxy.fault = "stall"

    async def scenario() -> None:
        mirror = bench.mirror(live)
        waiting = asyncio.create_task(mirror.flush(DEADLINE_SECONDS))
        await asyncio.sleep(0.2)
        await mirror.aclose()
        with pytest.raises(MirrorClosed):
            await waiting

    asyncio.run(scenario())


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 1 MB."""
    place = tmp_path / "small"
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(place)], check=True)
    yield place
    subprocess.run(["umount", str(place)], check=True)


def test_a_full_local_store_is_said_and_what_fits_is_kept(
    small_disk: Path, executor: ThreadPoolExecutor, tmp_path: Path
) -> None:
    bench = Bench(LocalStore(str(small_disk)), executor, tmp_path)
    live = bench.directory()
    (live / "a-large").write_bytes(bytes(2 << 20))
    (live / "small").write_text("x")
    with pytest.raises(StoreFull, match="Free space"):
        bench.store.put("w/x", io.BytesIO(bytes(2 << 20)), 2 << 20)

    async def scenario() -> None:
        mirror = bench.mirror(live)
        try:
            with pytest.raises(FlushIncomplete, match="a-large"):
                await mirror.flush(5)
            assert [one.path for one in bench.workspace.list()] == ["small"]
            (live / "a-large").unlink()
            await mirror.flush(DEADLINE_SECONDS)
        finally:
            await mirror.aclose()

    asyncio.run(scenario())


def test_durable_files_that_do_not_fit_stop_the_restore(local: Bench, small_disk: Path) -> None:
    live = local.directory()
    (live / "large").write_bytes(b"x" * (2 << 20))
    asyncio.run(local.flush(live))

    async def scenario() -> None:
        mirror = local.mirror(small_disk)
        try:
            with pytest.raises(DirectoryFull, match="more workspace storage, or remove durable files"):
                await mirror.begin_restore()
        finally:
            await mirror.aclose()

    asyncio.run(scenario())
    assert [one.path for one in local.workspace.list()] == ["large"]


def test_a_missing_directory_is_unusable(local: Bench) -> None:
    async def scenario() -> None:
        with pytest.raises(DirectoryUnusable):
            await local.mirror(local.top / "absent").restore()

    asyncio.run(scenario())
