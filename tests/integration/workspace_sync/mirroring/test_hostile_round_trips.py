"""Any tree, to the store, changed at will, to the store again, and back: it is the same, by one mirror or several."""

from __future__ import annotations

import asyncio
import os
import shutil
import stat
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.integration.workspace_sync.hostile_trees import DEADLINE_SECONDS, Canary, Workspace, picture
from workspace_sync import ObjectStore
from workspace_sync.entry import FARTHEST_NANOSECONDS
from workspace_sync.stores.local import LocalStore

FEW = [
    b"a",
    b"b",
    b"%",
    b".incoming",
    b"A",
    b"\xff",
    b"a%2Fb",
    b"manifest.json",
    b"n" * 255,
    b" ",
    b"\xc3\xa9",
    b"e\xcc\x81",
]
names = st.sampled_from(FEW) | st.binary(min_size=1, max_size=20).map(
    lambda raw: raw.replace(b"/", b"_").replace(b"\0", b"_")
).filter(lambda name: name not in (b".", b".."))  # fmt: skip
modes = st.integers(0, 0o7777)
times = st.integers(-(2**31) * 10**9, 2**33 * 10**9) | st.integers(0, FARTHEST_NANOSECONDS // 2)
contents = st.binary(max_size=30) | st.integers(1, 300_000).map(lambda size: b"\0" * size + b"x")
nodes = st.one_of(
    st.tuples(st.just("file"), names, contents, modes, times),
    st.tuples(st.just("file"), names, contents, modes, times),
    st.tuples(st.just("directory"), names, st.just(b""), modes, times),
    st.tuples(st.just("directory"), names, st.just(b""), modes, times),
    st.tuples(st.just("link"), names, st.sampled_from([b"/etc/passwd", b"..", b"a", b"\xff\n"]), modes, times),
    st.tuples(st.just("hard"), names, st.just(b""), modes, times),
    st.tuples(st.just("pipe"), names, st.just(b""), modes, times),
    st.tuples(st.just("socket"), names, st.just(b""), modes, times),
    st.tuples(st.just("remove"), names, st.just(b""), modes, times),
)
steps = st.lists(st.tuples(st.integers(0, 5), nodes), max_size=12)


def change(live: Path, number: int, node: tuple[Any, ...]) -> None:
    """One change somewhere in the tree: `number` chooses the directory, among those there are."""
    kind, name, content, mode, moment = node
    places = [live, *sorted(path for path in live.rglob("*") if path.is_dir() and not path.is_symlink())]
    path = places[number % len(places)] / os.fsdecode(name)
    first = live / "a"
    if kind == "hard" and (not first.is_file() or first.is_symlink() or os.path.lexists(path)):
        return
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    elif os.path.lexists(path):
        path.unlink()
    makers: dict[str, Callable[[], object]] = {
        "file": lambda: path.write_bytes(content),
        "directory": path.mkdir,
        "link": lambda: path.symlink_to(os.fsdecode(content)),
        "hard": lambda: path.hardlink_to(first),
        "pipe": lambda: os.mkfifo(path),
        "socket": lambda: os.mknod(path, stat.S_IFSOCK | 0o700),
        "remove": lambda: None,
    }
    makers[kind]()
    if kind in ("file", "directory"):
        path.chmod(mode)
    if kind in ("file", "directory", "link"):
        os.utime(path, ns=(1, moment), follow_symlinks=False)


async def follow(workspace: Workspace, rounds: list[list[tuple[int, tuple[Any, ...]]]], renewed: list[bool]) -> None:
    live = workspace.directory()
    mirror = workspace.mirror(live)
    try:
        for changes, again in zip(rounds, renewed, strict=True):
            for number, node in changes:
                change(live, number, node)
            if again:
                await mirror.aclose()
                mirror = workspace.mirror(live)
            report = await mirror.flush(DEADLINE_SECONDS)
            assert report.skipped == ()
            restored = workspace.directory()
            other = workspace.mirror(restored)
            try:
                assert (await other.restore()).skipped == ()
            finally:
                await other.aclose()
            assert picture(restored) == picture(live)
    finally:
        await mirror.aclose()


def run(store: ObjectStore, executor: ThreadPoolExecutor, top: Path, *arguments: Any) -> None:
    workspace = Workspace(store, executor, top)
    asyncio.run(follow(workspace, *arguments))


@settings(max_examples=40, suppress_health_check=list(HealthCheck))
@given(rounds=st.lists(steps, min_size=3, max_size=3), renewed=st.lists(st.booleans(), min_size=3, max_size=3))
def test_any_changes_of_any_tree_come_back(
    executor: ThreadPoolExecutor, rounds: list[list[tuple[int, tuple[Any, ...]]]], renewed: list[bool]
) -> None:
    with tempfile.TemporaryDirectory() as top:
        canary = Canary(Path(top) / "outside")
        store = LocalStore(top + "/store")
        run(store, executor, Path(top), rounds, renewed)
        canary.check(store)


@settings(max_examples=6, suppress_health_check=list(HealthCheck))
@given(rounds=st.lists(steps, min_size=2, max_size=2))
def test_any_changes_of_any_tree_come_back_from_every_store(
    store: ObjectStore, executor: ThreadPoolExecutor, tmp_path: Path, rounds: list[list[tuple[int, tuple[Any, ...]]]]
) -> None:
    run(store, executor, tmp_path, rounds, [False, False])
