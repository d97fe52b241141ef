"""Durable files without a session, on every store."""

from __future__ import annotations

import io

import pytest

from workspace_sync import DurableWorkspace, ObjectStore
from workspace_sync.errors import IllegalName, ObjectNotFound, PathConflict


@pytest.fixture
def workspace(store: ObjectStore) -> DurableWorkspace:
    return DurableWorkspace(store, "workspaces/sessions/one")


def put(workspace: DurableWorkspace, path: str, data: bytes) -> None:
    workspace.put(path, io.BytesIO(data), len(data))


def test_files_are_put_listed_opened_counted_and_removed(workspace: DurableWorkspace) -> None:
    assert workspace.list() == []
    assert workspace.summary().file_count == 0
    put(workspace, "out/a b.csv", b"1")
    put(workspace, "out/a b.csv", b"12")
    put(workspace, "out/deep/\udcff\n", b"345")
    put(workspace, "d" * 240 + "/" + "%" * 200, b"long")
    assert [one.path for one in workspace.list("out")] == ["out/a b.csv", "out/deep", "out/deep/\udcff\n"]
    assert [one.path for one in workspace.list("out", recursive=False)] == ["out/a b.csv", "out/deep"]
    assert (workspace.summary().file_count, workspace.summary().size_bytes) == (3, 9)
    info, chunks = workspace.open("out/deep/\udcff\n")
    assert (info.size, b"".join(chunks)) == (3, b"345")
    assert b"".join(workspace.open("d" * 240 + "/" + "%" * 200)[1]) == b"long"
    workspace.delete("out/deep")
    assert [one.path for one in workspace.list("out")] == ["out/a b.csv"]
    _, unread = workspace.open("out/a b.csv")
    unread.close()


def test_the_notebook_lies_beside_the_files(workspace: DurableWorkspace, store: ObjectStore) -> None:
    workspace.put_beside("history.ipynb", b"{}")
    assert workspace.list() == []
    with store.get("workspaces/sessions/one/history.ipynb") as stream:
        assert stream.read() == b"{}"
    workspace.put_beside("history_files/plot.png", b"x")
    with store.get("workspaces/sessions/one/history_files/plot.png") as stream:
        assert stream.read() == b"x"
    for name in ("manifest.json", "workspace", "workspace/a", "a/b/c", ".."):
        with pytest.raises(IllegalName):
            workspace.put_beside(name, b"")


def test_a_copy_has_all_the_files_and_a_life_of_its_own(workspace: DurableWorkspace, store: ObjectStore) -> None:
    put(workspace, "out/a b.csv", b"12")
    put(workspace, "d" * 240 + "/" + "%" * 200, b"long")
    workspace.put_beside("history.ipynb", b"{}")
    workspace.copy_to("workspaces/sessions/two")
    copy = DurableWorkspace(store, "workspaces/sessions/two")
    assert copy.list() == workspace.list()
    assert b"".join(copy.open("d" * 240 + "/" + "%" * 200)[1]) == b"long"
    put(copy, "out/a b.csv", b"changed")
    assert b"".join(workspace.open("out/a b.csv")[1]) == b"12"
    with pytest.raises(ObjectNotFound):
        store.get("workspaces/sessions/two/history.ipynb")
    copy.clear()
    assert list(store.list("workspaces/sessions/two/")) == []
    assert workspace.summary().file_count == 2


def test_a_copy_that_nobody_wants_any_more_stops(workspace: DurableWorkspace, store: ObjectStore) -> None:
    put(workspace, "a", b"1")
    put(workspace, "b", b"2")
    answers = iter([True, False])
    workspace.copy_to("workspaces/sessions/two", lambda: next(answers))
    assert len(list(store.list("workspaces/sessions/two/"))) == 1, "one file, and no manifest"


def test_what_cannot_be_is_refused(workspace: DurableWorkspace) -> None:
    put(workspace, "file", b"x")
    put(workspace, "dir/file", b"x")
    with pytest.raises(PathConflict):
        put(workspace, "file/below", b"x")
    with pytest.raises(PathConflict):
        put(workspace, "dir", b"x")
    with pytest.raises(PathConflict):
        workspace.open("dir")
    for absent in (workspace.open, workspace.delete, workspace.list):
        with pytest.raises(ObjectNotFound):
            absent("nothing")
    for path in ("../x", "/etc/passwd", "a\0", "a//b"):
        with pytest.raises(IllegalName):
            put(workspace, path, b"x")
