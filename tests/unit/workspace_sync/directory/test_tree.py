"""What is known of a live directory equals what a walk finds, whatever was done to it, and is known without one."""

# ruff: noqa: PTH101, PTH102, PTH103, PTH104, PTH108, PTH116, PTH118, PTH211
from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from workspace_sync.directory import incremental_scan
from workspace_sync.directory import tree as tree_module
from workspace_sync.directory.safe_open import DIRECTORY
from workspace_sync.directory.scan import Scan, scan_directory
from workspace_sync.directory.tree import Journal, LiveTree, Look
from workspace_sync.directory.watch import Watch
from workspace_sync.limits import TransferLimits

T = TypeVar("T")
LIMITS = TransferLimits()
PATHS = [b"a", b"b", b"d", b"d/a", b"d/b", b"d/e", b"d/e/a", b"d/e/f", b"d/e/f/a", b"\xff\n", b"d/e b"]


class Live:
    """A directory and what is known of it."""

    def __init__(self, watch: Watch | None = None, limits: TransferLimits = LIMITS) -> None:
        self.path = os.fsencode(tempfile.mkdtemp())
        self.limits = limits
        self.tree = LiveTree(limits, None, watch)
        self.journal = self.tree.journal()
        self.descriptors: list[int] = []
        self.walks = 0

    def look(
        self, journal: Journal | None = None, *, also: set[bytes] | None = None, walk: bool = False, last: bool = False
    ) -> Look:
        root = os.open(self.path, DIRECTORY)
        try:
            return self.tree.look(root, journal or self.journal, also=also, walk=walk, last=last)
        finally:
            os.close(root)

    def changed(self) -> list[bytes]:
        """What the next look tells, without a walk."""
        return sorted(self.look(also=set()).changed or {})

    def truth(self) -> Scan:
        root = os.open(self.path, DIRECTORY)
        try:
            return scan_directory(root, self.limits)
        finally:
            os.close(root)

    def at(self, name: bytes) -> bytes:
        return os.path.join(self.path, name)

    def write(self, name: bytes, content: str = "x") -> None:
        descriptor = os.open(self.at(name), os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NONBLOCK)
        os.write(descriptor, content.encode())
        os.close(descriptor)

    def close(self) -> None:
        self.tree.close()
        for descriptor in self.descriptors:
            os.close(descriptor)
        shutil.rmtree(self.path)


@pytest.fixture
def live() -> Iterator[Live]:
    made = Live(Watch())
    yield made
    made.close()


@pytest.fixture
def walks(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """What has been walked since, by its top."""
    walked: list[bytes] = []

    def noted(root: int, *rest: object, top: bytes = b"", **named: object) -> Scan:
        walked.append(top)
        return scan_directory(root, *rest, top=top, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(tree_module, "scan_directory", noted)
    monkeypatch.setattr(incremental_scan, "scan_directory", noted)
    return walked


def mark(live: Live, one: bytes, other: bytes) -> None:
    live.write(one)


def replace(live: Live, one: bytes, other: bytes) -> None:
    os.rename(live.at(one), live.at(other))


def remove(live: Live, one: bytes, other: bytes) -> None:
    try:
        os.unlink(live.at(one))
    except IsADirectoryError:
        shutil.rmtree(live.at(one))


def hold(live: Live, one: bytes, other: bytes) -> None:
    live.descriptors.append(os.open(live.at(one), os.O_RDWR | os.O_CREAT))


def write_held(live: Live, one: bytes, other: bytes) -> None:
    for descriptor in live.descriptors[-2:]:
        os.write(descriptor, one)


def same_size_and_time(live: Live, one: bytes, other: bytes) -> None:
    status = os.stat(live.at(one))
    os.truncate(live.at(one), 0)
    os.truncate(live.at(one), status.st_size)
    os.utime(live.at(one), ns=(status.st_atime_ns, status.st_mtime_ns))


def appear(live: Live, one: bytes, other: bytes) -> None:
    descriptor = os.open(live.path, os.O_TMPFILE | os.O_RDWR)
    live.descriptors.append(descriptor)
    os.link(f"/proc/self/fd/{descriptor}", live.at(one), follow_symlinks=True)


STEPS: list[Callable[[Live, bytes, bytes], None]] = [
    mark,
    replace,
    remove,
    hold,
    write_held,
    same_size_and_time,
    appear,
    lambda live, one, other: os.mkdir(live.at(one)),
    lambda live, one, other: os.makedirs(live.at(one) + b"/deep/er"),
    lambda live, one, other: os.link(live.at(one), live.at(other)),
    lambda live, one, other: os.symlink(other, live.at(one)),
    lambda live, one, other: os.mkfifo(live.at(one)),
    lambda live, one, other: os.chmod(live.at(one), 0o700),
    lambda live, one, other: os.truncate(live.at(one), 3),
]
steps = st.lists(
    st.tuples(
        st.integers(0, len(STEPS) - 1), st.sampled_from(PATHS), st.sampled_from(PATHS), st.sampled_from([True, False])
    ),
    max_size=25,
)


@settings(max_examples=150)
@given(steps)
def test_whatever_is_done_what_is_known_is_what_a_walk_finds(
    done: list[tuple[int, bytes, bytes, bool]],
) -> None:
    live = Live(Watch())
    try:
        os.makedirs(live.at(b"d/e"))
        known = live.look().scan
        for step, one, other, looks in [*done, (0, b"a", b"a", True)]:
            with contextlib.suppress(OSError):
                STEPS[step](live, one, other)
            if not looks:
                continue
            look = live.look(also=set())
            for path in look.changed or {}:
                _take_over(known.entries, look.scan.entries, path)
                _take_over(known.signatures, look.scan.signatures, path)
            truth, told = live.truth(), live.look(also=None).scan
            assert (known.entries, known.signatures) == (truth.entries, truth.signatures)
            assert (told.entries, told.signatures, told.special) == (truth.entries, truth.signatures, truth.special)
    finally:
        live.close()


def _take_over(known: dict[bytes, T], now: dict[bytes, T], path: bytes) -> None:
    known.pop(path, None)
    if path in now:
        known[path] = now[path]


def test_what_changed_is_told_once_and_nothing_else_is_looked_at(live: Live, walks: list[bytes]) -> None:
    os.makedirs(live.at(b"d/e"))
    for name in (b"a", b"d/b", b"d/e/c"):
        live.write(name)
    assert live.look().whole
    del walks[:]
    assert live.tree.is_quiet(live.journal)
    live.write(b"d/b")
    os.unlink(live.at(b"d/e/c"))
    assert not live.tree.is_quiet(live.journal)
    assert live.changed() == [b"d/b", b"d/e", b"d/e/c"]
    assert live.tree.is_quiet(live.journal)
    assert live.changed() == []
    assert walks == []


def test_a_new_directory_is_walked_alone_and_watched_from_then_on(live: Live, walks: list[bytes]) -> None:
    live.look()
    os.makedirs(live.at(b"n/m"))
    live.write(b"n/m/f")
    assert live.changed() == [b"n", b"n/m", b"n/m/f"]
    live.write(b"n/m/f")
    assert live.changed() == [b"n/m/f"]
    assert walks == [b"", b"n"]


def test_each_journal_gets_every_change_whichever_looks(live: Live) -> None:
    other = live.tree.journal()
    live.look()
    live.look(other)
    live.write(b"a")
    assert live.changed() == [b"a"]
    assert not live.tree.is_quiet(other)
    assert list(live.look(other, also=set()).changed or {}) == [b"a"]


@pytest.mark.parametrize("what", ["moved", "flooded", "too many", "too long", "no room"])
def test_where_the_kernel_cannot_tell_the_whole_is_walked(live: Live, walks: list[bytes], what: str) -> None:
    if what in ("too many", "too long"):
        live.tree = LiveTree(LIMITS, None, Watch(most=3) if what == "too many" else Watch(most_bytes=200))
        live.journal = live.tree.journal()
    os.makedirs(live.at(b"d/e"))
    live.write(b"d/e/f")
    live.look()
    if what == "moved":
        os.rename(live.at(b"d"), live.at(b"g"))
        live.write(b"g/e/f")
    elif what == "flooded":
        queue = int(Path("/proc/sys/fs/inotify/max_queued_events").read_text())
        for number in range(queue // 4 + 10):  # two names in turn, so that no event is like the one before it
            for name in (b"x", b"y"):
                os.utime(live.at(b"d/e/f") if name == b"x" else live.at(b"d"), (number, number))
                live.write(b"d/e/f", "")
        live.write(b"d/e/f")
        os.utime(live.at(b"d"), (1, 1))
    elif what == "no room":
        live.tree._watch.close()  # type: ignore[union-attr]
        live.write(b"d/e/f")
    else:
        os.makedirs(live.at(b"d" * 150 + b"/h"))
        live.write(b"d" * 150 + b"/h/i")
    del walks[:]
    changed = live.changed()
    assert b"" in walks or what in ("too many", "too long")
    truth = live.truth()
    assert live.look(also=None).scan.entries == truth.entries
    assert (b"d/e/f" in changed) or what in ("too many", "too long")
    if what in ("too many", "too long"):
        assert not live.tree.is_quiet(live.journal)
    live.tree.close()


def test_a_change_under_another_name_of_a_file_is_found(live: Live, walks: list[bytes]) -> None:
    os.mkdir(live.at(b"d"))
    live.write(b"a")
    os.link(live.at(b"a"), live.at(b"d/b"))
    live.look()
    live.write(b"a")
    assert live.changed() == [b"a", b"d/b"]
    assert walks == [b""]


def test_names_beyond_the_bound_are_cut_in_order_of_path(live: Live) -> None:
    limits = TransferLimits(manifest_bytes=4_000)
    os.mkdir(live.at(b"m"))
    for number in range(30):
        live.write(b"m/%02d" % number)
    for name in (b"a", b"z"):
        live.write(name)
    tree = LiveTree(limits, None, Watch())
    live.tree, live.journal = tree, tree.journal()
    scan = live.look().scan
    assert scan.cut is not None
    assert sorted(scan.entries) == sorted(path for path in live.truth().entries if path < scan.cut)
    assert b"a" in scan.entries
    assert scan.is_unknown(b"z")
    assert not scan.is_unknown(b"a")
    assert [each.path for each in scan.skipped] == [scan.cut.decode()]
    assert not tree.is_quiet(live.journal)
    shutil.rmtree(live.at(b"m"))
    assert sorted(live.look().scan.entries) == [b"a", b"z"]


def test_what_could_not_be_brought_is_unknown_and_not_gone(live: Live) -> None:
    missing: dict[bytes, str] = {}
    live.tree = LiveTree(LIMITS, bring=lambda: missing)
    live.journal = live.tree.journal()
    os.mkdir(live.at(b"d"))
    for name in (b"a", b"d/b"):
        live.write(name)
    assert sorted(live.look().scan.entries) == [b"a", b"d", b"d/b"]
    for name in (b"a", b"d/b"):
        os.unlink(live.at(name))
    missing[b"d"] = "nobody can look at it"
    scan = live.look().scan
    assert sorted(scan.entries) == [b"d", b"d/b"]
    assert [(each.path, each.reason) for each in scan.skipped] == [("d", "nobody can look at it")]
    missing.clear()
    assert sorted(live.look().scan.entries) == [b"d"]


def instances() -> set[str]:
    """This process's descriptors of inotify."""
    found = set()
    for each in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):
            if "inotify" in str(each.readlink()):
                found.add(each.name)
    return found


def test_a_tree_that_is_closed_holds_nothing_and_can_still_be_looked_at(live: Live, walks: list[bytes]) -> None:
    live.look()
    live.tree.close()
    assert instances() == set()
    live.write(b"a")
    assert live.look(also=set()).changed is None
    assert not live.tree.is_quiet(live.journal)
    live.write(b"b")
    assert live.changed() == [b"b"]
    assert walks == [b"", b"", b""]
    assert instances() == set()


def test_a_look_that_fails_in_the_midst_loses_nothing(live: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    live.look()
    os.mkdir(live.at(b"d"))
    live.write(b"d/f")
    live.write(b"g")

    def fail(*_: object, **__: object) -> Scan:
        raise OSError(5, "an error of the disk")

    with monkeypatch.context() as patch:
        patch.setattr(incremental_scan, "scan_directory", fail)
        with pytest.raises(OSError, match="disk"):
            live.look()
    assert live.changed() == [b"d", b"d/f", b"g"]


class CountedCloses(Watch):
    """Each takes the kernel 10 to 20 ms."""

    count = 0

    def close(self) -> None:
        self.count += 1
        super().close()


def test_the_last_walk_closes_no_watch_and_trusts_none() -> None:
    """A session's end waits for it. Where another look comes all the same, nothing is missed."""
    watch = CountedCloses()
    live = Live(watch)
    try:
        live.look()
        live.write(b"a")
        closed = watch.count
        assert live.look(walk=True, last=True).changed == {b"a": None}
        assert watch.count == closed
        assert not live.tree.is_watched()
        live.write(b"b")
        assert not live.tree.is_quiet(live.journal)
        assert live.changed() == [b"b"]
        assert live.tree.is_watched()
    finally:
        live.close()
