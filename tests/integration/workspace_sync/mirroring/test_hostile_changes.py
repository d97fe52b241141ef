"""Files that grow, shrink, are swapped or closed while they are read: what is sent was there at one moment."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, BinaryIO

import pytest

from tests.integration.workspace_sync.hostile_trees import Canary, Workspace, picture
from workspace_sync import Written
from workspace_sync.stores.local import LocalStore

SIZE = 3 << 20
STEP = 4096
Meddle = Callable[[Path, Path], None]


class MeddledStore(LocalStore):
    """Code changes the live directory while the first piece of a file is on its way, `times` times."""

    def __init__(self, root: str) -> None:
        super().__init__(root)
        self.times = 0
        self.meddle: Callable[[], None] = lambda: None

    def put(self, key: str, source: BinaryIO, size: int, *arguments: Any, **options: Any) -> Written:
        if "victim" in key and self.times:
            self.times -= 1
            source = _Meddled(source, self.meddle)  # type: ignore[assignment]
        return super().put(key, source, size, *arguments, **options)


class _Meddled:
    def __init__(self, source: BinaryIO, meddle: Callable[[], None]) -> None:
        self._source = source
        self._meddle: Callable[[], None] | None = meddle

    def read(self, size: int = -1) -> bytes:
        piece = self._source.read(size)
        if self._meddle is not None:
            self._meddle()
            self._meddle = None
        return piece


def grows(victim: Path, outside: Path) -> None:
    with victim.open("ab") as file:
        file.write(victim.read_bytes()[:1] * STEP)


def shrinks(victim: Path, outside: Path) -> None:
    os.truncate(victim, victim.stat().st_size - STEP)


def empties(victim: Path, outside: Path) -> None:
    os.truncate(victim, 0)


def is_written_over(victim: Path, outside: Path) -> None:
    value = bytes([victim.read_bytes()[0] + 1])
    status = victim.stat()
    with victim.open("r+b") as file:
        file.write(value * SIZE)
    os.utime(victim, ns=(status.st_atime_ns, status.st_mtime_ns))


def is_replaced(victim: Path, outside: Path) -> None:
    aside = victim.with_name("aside")
    aside.write_bytes(bytes([victim.read_bytes()[0] + 1]) * SIZE)
    aside.rename(victim)


def is_removed(victim: Path, outside: Path) -> None:
    victim.unlink()


def becomes_a_link(victim: Path, outside: Path) -> None:
    victim.unlink()
    victim.symlink_to(outside / "file")


def becomes_a_pipe(victim: Path, outside: Path) -> None:
    victim.unlink()
    os.mkfifo(victim)


def becomes_a_directory(victim: Path, outside: Path) -> None:
    victim.unlink()
    victim.mkdir()
    (victim / "inner").write_bytes(b"inner")


def has_its_directory_swapped(victim: Path, outside: Path) -> None:
    victim.parent.rename(victim.parent.with_name("moved"))
    victim.parent.symlink_to(outside)


def is_closed(victim: Path, outside: Path) -> None:
    victim.chmod(0)


SWAPS: list[Meddle] = [is_replaced, becomes_a_link, becomes_a_pipe, becomes_a_directory, has_its_directory_swapped]
MEDDLES: list[Meddle] = [*SWAPS, grows, shrinks, empties, is_written_over, is_removed, is_closed]
RESTLESS = [grows, shrinks, is_written_over, is_replaced]


@pytest.fixture
def workspace(executor: ThreadPoolExecutor, tmp_path: Path) -> Workspace:
    return Workspace(MeddledStore(str(tmp_path / "store")), executor, tmp_path)


def prepared(workspace: Workspace, canary: Canary, meddle: Meddle, times: int) -> tuple[Path, list[bytes]]:
    """A directory with a victim, and a list that fills with what the victim holds from moment to moment."""
    live = workspace.directory()
    (live / "in").mkdir()
    victim = live / "in/victim"
    victim.write_bytes(b"a" * SIZE)
    (live / "in/witness").write_bytes(b"w")
    states = [victim.read_bytes()]

    def change() -> None:
        meddle(victim, canary.directory)
        if victim.is_file() and not victim.is_symlink():
            states.append(victim.read_bytes())

    store = workspace.store
    assert isinstance(store, MeddledStore)
    store.meddle, store.times = change, times
    return live, states


@pytest.mark.parametrize("meddle", MEDDLES, ids=lambda meddle: meddle.__name__)
def test_a_file_that_changes_once_is_sent_as_it_was_at_one_moment(
    meddle: Meddle, workspace: Workspace, canary: Canary
) -> None:
    live, states = prepared(workspace, canary, meddle, 1)
    workspace.flush(live)
    for one in workspace.durable.list():
        if one.kind == "file" and one.path.endswith("victim"):
            assert workspace.content(one.path) in states
    workspace.flush(live)
    assert picture(workspace.restore()[0]) == picture(live)
    canary.check(workspace.store)


@pytest.mark.parametrize("meddle", RESTLESS, ids=lambda meddle: meddle.__name__)
def test_a_file_that_never_rests_is_sent_as_it_was_at_one_moment(
    meddle: Meddle, workspace: Workspace, canary: Canary
) -> None:
    live, states = prepared(workspace, canary, meddle, 50)
    workspace.flush(live)
    assert len(states) > 2
    assert workspace.content("in/victim") in states
    assert workspace.content("in/witness") == b"w"
    assert isinstance(workspace.store, MeddledStore)
    workspace.store.times = 0
    workspace.flush(live)
    assert workspace.content("in/victim") == states[-1]


def test_a_whole_tree_that_is_replaced_while_it_is_read_leaves_no_mixture(workspace: Workspace, canary: Canary) -> None:
    def replaced(victim: Path, outside: Path) -> None:
        shutil.rmtree(victim.parent)
        victim.parent.write_bytes(b"now a file")

    live, _ = prepared(workspace, canary, replaced, 1)
    workspace.flush(live)
    workspace.flush(live)
    assert picture(workspace.restore()[0]) == picture(live)
    assert workspace.objects() == {"manifest.json", "workspace/in"}
