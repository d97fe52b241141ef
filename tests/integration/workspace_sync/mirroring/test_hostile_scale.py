"""Trees that are deep, wide or both: linear time, few descriptors and little memory, told by counting."""

from __future__ import annotations

import asyncio
import errno
import io
import os
import subprocess
import sys
import tempfile
import time
import tracemalloc
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from tests.integration.workspace_sync.hostile_trees import QUICK, Workspace, picture, removed
from workspace_sync import Mirror, TransferLimits
from workspace_sync.directory.scan import Scan, scan_directory
from workspace_sync.errors import FlushIncomplete, StoreUnavailable, WorkspaceTooLarge
from workspace_sync.names import PATH_BYTES
from workspace_sync.stores.local import LocalStore

DEEP = 1_050
"""More levels than Python calls may nest."""
DESCRIPTORS = 150
"""What a walk may hold open at once, with all else that the process has open."""


@pytest.fixture
def local(executor: ThreadPoolExecutor, tmp_path: Path) -> Workspace:
    return Workspace(LocalStore(str(tmp_path / "store")), executor, tmp_path)


@pytest.fixture
def live(local: Workspace) -> Iterator[Path]:
    directory = local.directory()
    with removed(directory):
        yield directory


def dig(directory: Path, depth: int, name: str = "m", beside: tuple[str, ...] = ()) -> int:
    """A chain of directories of this name, each with others beside the next one."""
    at = os.open(directory, os.O_RDONLY)
    for _ in range(depth):
        for each in (name, *beside):
            os.mkdir(each, dir_fd=at)
        below = os.open(name, os.O_RDONLY, dir_fd=at)
        os.close(at)
        at = below
    return at


def scanned(directory: Path, limits: TransferLimits | None = None, until: float = float("inf")) -> Scan:
    root = os.open(directory, os.O_RDONLY)
    try:
        return scan_directory(root, limits or TransferLimits(), until=until)
    finally:
        os.close(root)


@pytest.fixture(scope="module")
def deep(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A deep tree with a directory before and one after each next level."""
    directory = tmp_path_factory.mktemp("deep")
    with removed(directory):
        os.close(dig(directory, DEEP, beside=("a", "z")))
        yield directory


def test_a_deep_walk_opens_each_directory_a_few_times_at_most(deep: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = 0
    honest = os.open

    def counting(*arguments: object, **options: object) -> int:
        nonlocal opened
        opened += 1
        return honest(*arguments, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(os, "open", counting)
    scan = scanned(deep)
    assert len(scan.entries) == 3 * DEEP
    assert opened < 10 * len(scan.entries)


def test_a_deep_walk_holds_few_descriptors(deep: Path) -> None:
    program = (
        "import os, resource, sys\n"
        "from workspace_sync.limits import TransferLimits\n"
        "from workspace_sync.directory.scan import scan_directory\n"
        f"resource.setrlimit(resource.RLIMIT_NOFILE, ({DESCRIPTORS}, {DESCRIPTORS}))\n"
        "scan = scan_directory(os.open(sys.argv[1], os.O_RDONLY), TransferLimits())\n"
        "print(len(scan.entries), len(scan.skipped))\n"
    )
    done = subprocess.run([sys.executable, "-c", program, str(deep)], capture_output=True, text=True, check=True)
    assert done.stdout.split() == [str(3 * DEEP), "0"]


def test_a_deep_tree_comes_back(local: Workspace, live: Path) -> None:
    at = dig(live, DEEP)
    for number in range(50):
        os.close(os.open(f"file-{number}", os.O_CREAT | os.O_WRONLY, dir_fd=at))
    os.symlink("x" * 4000, "link", dir_fd=at)
    os.close(at)
    assert local.flush(live).skipped == ()
    again, report = local.restore()
    with removed(again):
        assert (report.files, report.directories, report.links, report.skipped) == (50, DEEP, 1, ())
        assert local.flush(again).sent == 0


def test_paths_at_the_limit_are_kept_and_those_beyond_it_told(local: Workspace, live: Path) -> None:
    at = dig(live, (PATH_BYTES - 196) // 100, "d" * 99)
    for length in (195, 196, 197, 255):
        os.close(os.open("f" * length, os.O_CREAT | os.O_WRONLY, dir_fd=at))
        os.mkdir("d" * length, dir_fd=at)
        if length > 196:
            os.close(os.open("d" * length + "/inner", os.O_CREAT | os.O_WRONLY, dir_fd=at))
    os.close(at)
    report = local.flush(live)
    assert len(report.skipped) == 4
    assert all("long" in one.reason for one in report.skipped)
    again, _ = local.restore()
    with removed(again):
        found = picture(again)
        assert sorted(len(path) for path in found)[-4:] == [PATH_BYTES - 1, PATH_BYTES - 1, PATH_BYTES, PATH_BYTES]
        assert local.flush(again).skipped == ()


@pytest.mark.parametrize("kind", ["files", "pipes", "links", "levels"])
def test_more_names_than_fit_take_no_more_memory(kind: str, live: Path) -> None:
    """Hard links make names without number, and there may be more of them at each level of a deep tree."""
    limits = TransferLimits(manifest_bytes=100_000)
    levels, names = (40, 400) if kind == "levels" else (1, 4_000)
    make = os.mkfifo if kind == "pipes" else os.mknod
    at = os.open(live, os.O_RDONLY)
    for _ in range(levels):
        make("n", dir_fd=at)
        for number in range(1, names):
            if kind == "links":
                os.symlink("x" * 50, f"n{number}", dir_fd=at)
            else:
                os.link("n", f"n{number}", src_dir_fd=at, dst_dir_fd=at)
        os.mkdir("m", dir_fd=at)
        below = os.open("m", os.O_RDONLY, dir_fd=at)
        os.close(at)
        at = below
    os.close(at)
    scanned(live)  # what is imported and remembered by the first walk does not count
    tracemalloc.start()
    try:
        scan = scanned(live, limits)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(scan.entries) <= 333
    assert len(scan.skipped) >= 1
    assert peak < 500_000


@pytest.mark.parametrize("removes", [True, False], ids=["all", "part"])
def test_names_that_found_no_room_are_in_the_manifest_again_once_there_is(
    removes: bool,
    local: Workspace,
    live: Path,
    executor: ThreadPoolExecutor,
) -> None:
    """Pipes take room too, and leave no other trace; a mirror of a part keeps what the directory does not have."""
    limits = replace(QUICK, manifest_bytes=6_000, watch=False)
    names = {"afile", "zdir", "zfile", "zlink"}
    if not removes:
        other = local.directory()
        (other / "aother").symlink_to("x")
        local.flush(other)
        names.add("aother")

    def named() -> set[str]:
        return {info.path for info in local.durable.list()} - {"zfile"}

    async def run() -> None:
        mirror = Mirror(str(live), local.store, local.prefix, limits=limits, executor=executor, removes=removes)
        try:
            await mirror.flush(60)
            assert named() == names - {"zfile"}
            for number in range(40):
                os.mkfifo(live / f"m{number:03}")
            assert (await mirror.flush(60)).files == 1
            assert named() == names - {"zdir", "zfile", "zlink"}
            written = local.durable.summary().as_of
            await mirror.flush(60)
            assert local.durable.summary().as_of == written
            for number in range(40):
                (live / f"m{number:03}").unlink()
            assert (await mirror.flush(60)).files == 2
            assert named() == names - {"zfile"}
        finally:
            await mirror.aclose()

    (live / "zdir").mkdir()
    (live / "zlink").symlink_to("x")
    for name in ("afile", "zfile"):
        (live / name).write_text("1")
    asyncio.run(run())


def test_a_host_without_room_for_a_manifest_is_told_and_tried_again(
    local: Workspace, live: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Full(tempfile.SpooledTemporaryFile[bytes]):
        def write(self, data: object) -> int:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    (live / "file").write_text("1")
    with monkeypatch.context() as full:
        full.setattr(tempfile, "SpooledTemporaryFile", Full)
        with pytest.raises(FlushIncomplete, match=r"no room on this host.*No space left"):
            local.flush(live, deadline_seconds=2)
        with pytest.raises(StoreUnavailable, match="no room on this host"):
            local.durable.put("other", io.BytesIO(b"1"), 1)
    assert local.flush(live).files == 1


def test_a_walk_ends_at_its_time_within_one_directory_too(live: Path) -> None:
    for number in range(1_500):
        (live / f"{number}").touch()
    with pytest.raises(WorkspaceTooLarge, match="longer"):
        scanned(live, until=time.monotonic() - 1.0)


def test_closed_names_without_end_are_not_opened_one_by_one(live: Path) -> None:
    for number in range(30):
        (live / f"closed-{number}").mkdir()
        (live / f"closed-{number}/inner").touch()
        (live / f"closed-{number}").chmod(0)
    (live / "open").touch()
    program = (
        "import os, sys\n"
        "from workspace_sync.directory import scan\n"
        "from workspace_sync.limits import TransferLimits\n"
        "from workspace_sync.directory.owned_directory import OwnedDirectory\n"
        "opener = OwnedDirectory(sys.argv[1]).open\n"
        "for scan.MOST_CLOSED in (1_000, 10):\n"
        "    found = scan.scan_directory(os.open(sys.argv[1], os.O_RDONLY), TransferLimits(), opener)\n"
        "    print(len(found.entries), len(found.unread), len(found.skipped), b'open' in found.entries)\n"
    )
    without = ["setpriv", "--bounding-set=-dac_override,-dac_read_search"]
    done = subprocess.run(
        [*without, sys.executable, "-c", program, str(live)], capture_output=True, text=True, check=True
    )
    every, few = (line.split() for line in done.stdout.splitlines())
    assert every == ["61", "0", "0", "True"]
    assert few[3] == "True"
    assert int(few[1]) == int(few[2]) > 20


def test_a_hole_passes_in_pieces(local: Workspace, live: Path) -> None:
    """What a file seems to hold is not what it takes of memory on its way."""
    size = 24 << 20
    with (live / "hole").open("wb") as file:
        file.truncate(size)
    limits = replace(QUICK, manifest_bytes=1 << 20)  # as much is set aside for reading one
    local.flush(live, limits)
    os.truncate(live / "hole", size + 1)
    tracemalloc.start()
    try:
        local.flush(live, limits)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert local.durable.stat("hole").size == size + 1
    assert peak < 12 << 20
