"""Durable files looked at, read in part, and changed on condition, on every store."""

from __future__ import annotations

import hashlib
import io

import pytest

from workspace_sync import DurableWorkspace, Expected, ObjectStore
from workspace_sync.errors import NotAsExpected, ObjectNotFound, PathConflict, StoreUnavailable
from workspace_sync.store import StoredObject
from workspace_sync.workspaces.workspace import whole

FILES = "workspaces/sessions/one/workspace/"


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


@pytest.fixture
def workspace(store: ObjectStore) -> DurableWorkspace:
    found = DurableWorkspace(store, "workspaces/sessions/one")
    put(found, "out/ten", b"0123456789")
    put(found, "%" * 250 + "/" + "%" * 200, b"long")
    return found


def put(workspace: DurableWorkspace, path: str, data: bytes, expected: Expected | None = None) -> None:
    workspace.put(path, io.BytesIO(data), len(data), expected or Expected())


def test_a_name_is_told_whatever_it_is(workspace: DurableWorkspace, store: ObjectStore) -> None:
    info = workspace.stat("out/ten")
    assert (info.kind, info.size, info.sha256, info.mode) == ("file", 10, sha256(b"0123456789"), 0o644)
    assert info.etag
    assert workspace.stat("out").kind == "directory"
    long = workspace.stat("%" * 250 + "/" + "%" * 200)
    assert (long.size, long.sha256) == (4, sha256(b"long"))
    store.put(FILES + "dropped", io.BytesIO(b"by another"), 10)
    assert workspace.stat("dropped").sha256 == ""
    with pytest.raises(ObjectNotFound):
        workspace.stat("nothing")


@pytest.mark.parametrize("path", ["out/ten", "%" * 250 + "/" + "%" * 200], ids=["plain", "long"])
def test_a_part_is_read_alone(workspace: DurableWorkspace, path: str) -> None:
    opened = workspace.open_part(path, lambda info: (info.size - 3, info.size - 1))
    assert b"".join(opened.chunks) == {"out/ten": b"78"}.get(path, b"on")
    empty = workspace.open_part(path, lambda _info: (0, 0))
    assert b"".join(empty.chunks) == b""


def test_what_is_said_of_a_file_holds_for_its_bytes(workspace: DurableWorkspace, store: ObjectStore) -> None:
    """It is replaced between the look and the read: both are of the new one."""

    class Replaced:
        def __getattr__(self, name: str) -> object:
            return getattr(store, name)

        def get(self, key: str, offset: int = 0, size: int | None = None) -> object:
            if key.endswith("/ten") and replacements:
                put(workspace, "out/ten", replacements.pop())
            return store.get(key, offset, size)

    replacements = [b"new bytes"]
    raced = DurableWorkspace(Replaced(), "workspaces/sessions/one")  # type: ignore[arg-type]
    opened = raced.open_part("out/ten", whole)
    assert b"".join(opened.chunks) == b"new bytes"
    assert (opened.info.size, opened.info.sha256) == (9, sha256(b"new bytes"))
    replacements += [bytes([number]) * (20 + number) for number in range(9)]
    with pytest.raises(StoreUnavailable, match="replaced"):
        raced.open_part("out/ten", whole)


def test_a_write_on_condition(workspace: DurableWorkspace) -> None:
    absent, there = Expected(none_of=frozenset()), Expected(any_of=frozenset())
    ten = Expected(any_of=frozenset({sha256(b"0123456789")}))
    with pytest.raises(NotAsExpected) as told:
        put(workspace, "out/ten", b"other", absent)
    assert told.value.sha256 == sha256(b"0123456789")
    with pytest.raises(NotAsExpected):
        put(workspace, "out/new", b"other", there)
    with pytest.raises(NotAsExpected):
        put(workspace, "out/ten", b"x", Expected(none_of=frozenset({sha256(b"0123456789")})))
    put(workspace, "out/ten", b"eleven", ten)
    with pytest.raises(NotAsExpected):
        put(workspace, "out/ten", b"twelve", ten)
    put(workspace, "out/new", b"first", absent)
    put(workspace, "out/new", b"second", there)
    assert b"".join(workspace.open("out/ten")[1]) == b"eleven"
    with pytest.raises(NotAsExpected):
        workspace.delete("out/ten", ten)
    workspace.delete("out/ten", Expected(any_of=frozenset({sha256(b"eleven")})))


def test_a_file_that_somebody_else_wrote_is_read_to_be_known(workspace: DurableWorkspace, store: ObjectStore) -> None:
    store.put(FILES + "dropped", io.BytesIO(b"by another"), 10)
    with pytest.raises(NotAsExpected):
        put(workspace, "dropped", b"x", Expected(any_of=frozenset({sha256(b"y")})))
    put(workspace, "dropped", b"ours", Expected(any_of=frozenset({sha256(b"by another")})))
    assert b"".join(workspace.open("dropped")[1]) == b"ours"


def test_a_dry_run_removes_nothing_and_says_the_same(workspace: DurableWorkspace, store: ObjectStore) -> None:
    put(workspace, "out/deep/er", b"123")
    before = sorted(each.key for each in store.list("workspaces/sessions/one/"))
    told = workspace.delete("out", dry_run=True)
    assert sorted(each.key for each in store.list("workspaces/sessions/one/")) == before
    assert told.paths == ("out", "out/deep", "out/deep/er", "out/ten")
    assert (told.file_count, told.size_bytes) == (2, 13)
    assert workspace.delete("out") == told
    with pytest.raises(ObjectNotFound):
        workspace.delete("out", dry_run=True)


def test_all_files_go_and_what_lies_beside_them_stays(workspace: DurableWorkspace, store: ObjectStore) -> None:
    workspace.put_beside("history.ipynb", b"{}")
    workspace.put_beside("history_files/a.txt", b"a")
    store.put(FILES.replace("workspace/", "manifest.json"), io.BytesIO(b"none"), 4)  # it cannot be read
    told, beside = workspace.contents()
    assert (told.file_count, beside) == (1, ["history.ipynb", "history_files/a.txt"])
    workspace.remove_files()
    left: list[StoredObject] = list(store.list("workspaces/sessions/one/"))
    assert sorted(each.key.removeprefix("workspaces/sessions/one/") for each in left) == [
        "history.ipynb",
        "history_files/a.txt",
    ]
    assert workspace.list() == []


def test_a_link_is_given_where_the_store_has_them(workspace: DurableWorkspace, store: ObjectStore) -> None:
    info, link = workspace.presign("out/ten", 60)
    assert info.size == 10
    assert (link is None) == store.description.startswith("the local store")
    with pytest.raises(PathConflict):
        workspace.presign("out", 60)
    with pytest.raises(ObjectNotFound):
        workspace.presign("nothing", 60)


def test_other_bytes_of_the_same_size_have_no_digest_of_ours(workspace: DurableWorkspace, store: ObjectStore) -> None:
    store.put(FILES + "out/ten", io.BytesIO(b"9876543210"), 10)
    assert workspace.stat("out/ten").sha256 == ""
    with pytest.raises(NotAsExpected):
        put(workspace, "out/ten", b"x", Expected(any_of=frozenset({sha256(b"0123456789")})))
