"""Copies between durable workspaces, on every store: by the store itself, conflicts told, going on after a failure."""

from __future__ import annotations

import asyncio
import io
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from workspace_sync import DurableWorkspace, ObjectStore, TransferLimits, Written
from workspace_sync.entry import Entry
from workspace_sync.errors import (
    AlreadyThere,
    IllegalName,
    ObjectNotFound,
    PathConflict,
    WorkspaceTooLarge,
)
from workspace_sync.mirroring.durable import DurableFiles
from workspace_sync.stores.local import LocalStore
from workspace_sync.threads import Threads
from workspace_sync.workspaces.copying import CopyPlan, WorkspaceCopy

ONE, TWO = "workspaces/sessions/one", "workspaces/sessions/two"
LONG = "%" * 250 + "/" + "%" * 200


class NoBytes:
    """A store whose files can be copied and not read or written: nothing of them comes here."""

    def __init__(self, behind: ObjectStore) -> None:
        self._behind = behind

    def __getattr__(self, name: str) -> object:
        return getattr(self._behind, name)

    def get(self, key: str, offset: int = 0, size: int | None = None) -> object:
        assert key.endswith("manifest.json"), f"{key} was read"
        return self._behind.get(key, offset, size)

    def put(self, key: str, source: object, size: int) -> Written:
        assert key.endswith("manifest.json"), f"{key} was written"
        return self._behind.put(key, source, size)  # type: ignore[arg-type]


@pytest.fixture
def local(tmp_path: Path) -> LocalStore:
    return LocalStore(str(tmp_path / "store"))


def put(store: ObjectStore, prefix: str, **files: bytes) -> DurableWorkspace:
    workspace = DurableWorkspace(store, prefix)
    for name, data in files.items():
        path = LONG if name == "long" else name.replace("__", "/")
        workspace.put(path, io.BytesIO(data), len(data))
    return workspace


def add(store: ObjectStore, prefix: str, *entries: Entry) -> None:
    durable = DurableFiles(store, prefix, 1 << 20)
    every = durable.load().entries
    every.update({entry.path: entry for entry in entries})
    durable.write_manifest(every.values())


def carry_out(copying: WorkspaceCopy, plan: CopyPlan, executor: ThreadPoolExecutor) -> None:
    asyncio.run(copying.carry_out(plan, Threads(executor, 4)))


def copy(
    store: ObjectStore,
    executor: ThreadPoolExecutor,
    *paths: str,
    to_path: str = "",
    overwrite: bool = False,
) -> CopyPlan:
    copying = WorkspaceCopy(NoBytes(store), ONE, TWO)  # type: ignore[arg-type]
    plan = copying.plan(paths, to_path, overwrite=overwrite)
    carry_out(copying, plan, executor)
    return plan


def contents(workspace: DurableWorkspace) -> dict[str, bytes]:
    return {each.path: b"".join(workspace.open(each.path)[1]) for each in workspace.list() if each.kind == "file"}


def test_all_of_a_workspace(store: ObjectStore, executor: ThreadPoolExecutor) -> None:
    put(store, ONE, a=b"1", out__b=b"22", out__deep__c=b"333", long=b"long")
    add(
        store,
        ONE,
        Entry(b"out/link", "link", target=b"/etc/passwd"),
        Entry(b"nothing", "directory", mode=0o700, mtime_ns=1_000_000_000),
    )
    two = put(store, TWO, mine=b"stays")
    plan = WorkspaceCopy(store, ONE, TWO).plan([], "", overwrite=False)
    assert contents(two) == {"mine": b"stays"}, "a plan changes nothing"
    assert (len(plan.files), plan.size_bytes, plan.overwritten, plan.unchanged) == (4, 10, 0, 0)
    assert copy(store, executor).paths == plan.paths
    assert contents(two) == {"a": b"1", "mine": b"stays", "out/b": b"22", "out/deep/c": b"333", LONG: b"long"}
    assert two.stat("out/link").target == "/etc/passwd"
    assert (two.stat("nothing").mode, two.stat("nothing").modified) == (0o700, 1.0)
    source = DurableWorkspace(store, ONE)
    for path in ("a", LONG):
        assert (two.stat(path).sha256, two.stat(path).modified) == (
            source.stat(path).sha256,
            source.stat(path).modified,
        )
    again = copy(store, executor)
    assert (again.paths, again.unchanged, again.overwritten) == ([], 5, 0)


def test_some_paths_below_another(store: ObjectStore, executor: ThreadPoolExecutor) -> None:
    put(store, ONE, a=b"1", out__b=b"22", out__c=b"333", outside=b"no")
    copy(store, executor, "out", "a", to_path="from/one")
    assert contents(DurableWorkspace(store, TWO)) == {
        "from/one/a": b"1",
        "from/one/out/b": b"22",
        "from/one/out/c": b"333",
    }


def test_conflicts_are_told_and_overwritten_when_asked(store: ObjectStore, executor: ThreadPoolExecutor) -> None:
    put(store, ONE, a=b"new", b=b"same", c=b"was a link")
    add(store, ONE, Entry(b"d", "link", target=b"was a file"))
    two = put(store, TWO, a=b"old", b=b"same", d=b"file")
    add(store, TWO, Entry(b"c", "link", target=b"x"))
    with pytest.raises(AlreadyThere) as told:
        copy(store, executor)
    assert told.value.paths == ["a", "c", "d"]
    assert contents(two) == {"a": b"old", "b": b"same", "d": b"file"}
    plan = copy(store, executor, overwrite=True)
    assert (plan.overwritten, plan.unchanged) == (3, 1)
    assert contents(two) == {"a": b"new", "b": b"same", "c": b"was a link"}
    assert (two.stat("d").kind, two.stat("d").target) == ("link", "was a file")


def test_what_cannot_be_is_refused(local: LocalStore, executor: ThreadPoolExecutor) -> None:
    put(local, ONE, x__y=b"1", z=b"2")
    put(local, TWO, x=b"a file", z__below=b"a directory")
    for path in ("x", "z"):
        with pytest.raises(PathConflict):
            copy(local, executor, path, overwrite=True)
    for absent in ("absent", "x/absent"):
        with pytest.raises(ObjectNotFound):
            copy(local, executor, absent)
    with pytest.raises(IllegalName):
        copy(local, executor, to_path="../up")
    with pytest.raises(IllegalName):
        copy(local, executor, to_path="/".join(["d" * 200] * 21))
    small = WorkspaceCopy(local, ONE, TWO, TransferLimits(workspace_bytes=17))
    with pytest.raises(WorkspaceTooLarge):
        small.plan(["z"], "to", overwrite=False)


def test_within_one_workspace(local: LocalStore, executor: ThreadPoolExecutor) -> None:
    one = put(local, ONE, a__x=b"1", a__a__x=b"2")
    copying = WorkspaceCopy(local, ONE, ONE)
    carry_out(copying, copying.plan(["a"], "b", overwrite=False), executor)
    assert contents(one) == {"a/x": b"1", "a/a/x": b"2", "b/a/x": b"1", "b/a/a/x": b"2"}
    with pytest.raises(PathConflict):
        copying.plan(["a"], "a", overwrite=True)


def test_a_file_that_is_replaced_meanwhile_comes_as_it_is(local: LocalStore, executor: ThreadPoolExecutor) -> None:
    one = put(local, ONE, a=b"old", b=b"gone")
    copying = WorkspaceCopy(local, ONE, TWO)
    plan = copying.plan(["a"], "", overwrite=False)
    put(local, ONE, a=b"newer")
    carry_out(copying, plan, executor)
    two = DurableWorkspace(local, TWO)
    assert contents(two) == {"a": b"newer"}
    assert two.stat("a").sha256 == ""
    plan = copying.plan(["b"], "", overwrite=False)
    one.delete("b")
    with pytest.raises(ObjectNotFound):
        carry_out(copying, plan, executor)


def test_a_copy_that_fails_goes_on_when_asked_again(local: LocalStore, executor: ThreadPoolExecutor) -> None:
    one = put(local, ONE, **{f"f{number}": bytes([number]) for number in range(20)})
    copying = WorkspaceCopy(local, ONE, TWO)
    plan = copying.plan([], "", overwrite=False)
    one.delete("f7")
    with pytest.raises(ObjectNotFound):
        carry_out(copying, plan, executor)
    two = DurableWorkspace(local, TWO)
    copied = {each.path: each for each in two.list()}
    assert all(each.sha256 for each in copied.values())
    assert all(local.stat(f"{TWO}/workspace/{path}") for path in copied)
    again = copying.plan([], "", overwrite=False)
    assert again.unchanged == len(copied)
    carry_out(copying, again, executor)
    assert contents(two) == contents(one)
