"""What every `ObjectStore` does, on the local store and on two S3 servers."""

from __future__ import annotations

import hashlib
import io
import os
import threading
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from workspace_sync import ObjectStore, Written
from workspace_sync.errors import IllegalName, ObjectNotFound, StoreRefused
from workspace_sync.stores import local
from workspace_sync.stores.local import LocalStore


class FailsHalfway(io.RawIOBase):
    """A source that gives some bytes and then fails."""

    def __init__(self, size: int) -> None:
        self.left = size // 2

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        if not self.left:
            raise EOFError("torn")
        piece = b"x" * min(self.left, size if size >= 0 else self.left)
        self.left -= len(piece)
        return piece


def put(store: ObjectStore, key: str, data: bytes) -> Written:
    return store.put(key, io.BytesIO(data), len(data))


def get(store: ObjectStore, key: str) -> bytes:
    with store.get(key) as stream:
        return stream.read()


def keys(store: ObjectStore, prefix: str) -> set[str]:
    return {stored.key for stored in store.list(prefix)}


def test_an_object_is_put_described_listed_replaced_and_removed(store: ObjectStore) -> None:
    store.check()
    put(store, "w/a/one.csv", b"1,2\n")
    put(store, "w/empty", b"")
    assert get(store, "w/a/one.csv") == b"1,2\n"
    assert get(store, "w/empty") == b""
    assert store.stat("w/a/one.csv").size == 4
    assert {(one.key, one.size) for one in store.list("w/")} == {("w/a/one.csv", 4), ("w/empty", 0)}
    put(store, "w/a/one.csv", b"other")
    assert get(store, "w/a/one.csv") == b"other"
    store.copy("w/a/one.csv", "w/b")
    assert get(store, "w/b") == b"other"
    store.delete(["w/a/one.csv", "w/never-was", "w/b"])
    assert keys(store, "w/") == {"w/empty"}


def test_what_is_absent_is_not_found(store: ObjectStore) -> None:
    with pytest.raises(ObjectNotFound):
        store.get("w/nothing")
    with pytest.raises(ObjectNotFound):
        store.stat("w/nothing")
    assert keys(store, "nowhere/") == set()
    store.delete([])


def test_small_objects_come_each_with_what_stands_for_it(store: ObjectStore) -> None:
    wanted = {number: f"w/{number}" for number in range(40)}
    for number, key in wanted.items():
        put(store, key, b"x" * number)
    put(store, "w/larger", b"y" * 300_000)
    names = [*wanted.items(), ("larger", "w/larger"), ("absent", "w/nothing")]
    found = {}
    with store.get_ahead(names) as coming:
        for item, opened in coming:
            if item == "absent":
                with pytest.raises(ObjectNotFound):
                    opened()
                continue
            with opened() as stream:
                found[item] = stream.read()
    assert found == {**{number: b"x" * number for number in wanted}, "larger": b"y" * 300_000}


def test_small_objects_may_be_given_up(store: ObjectStore) -> None:
    for number in range(20):
        put(store, f"w/{number}", b"content")
    with store.get_ahead((number, f"w/{number}") for number in range(20)) as coming:
        next(coming)[1]().close()
    assert get(store, "w/7") == b"content"
    with store.get_ahead([]) as coming:
        assert list(coming) == []


def test_a_part_of_an_object_is_read_and_nothing_beyond_its_end(store: ObjectStore) -> None:
    put(store, "w/ranged", b"0123456789")
    for offset, size, wanted in [(3, 4, b"3456"), (7, None, b"789"), (0, 2, b"01"), (8, 9, b"89"), (4, 0, b"")]:
        with store.get("w/ranged", offset, size) as stream:
            assert stream.read() == wanted
    for offset, size in [(10, 1), (11, None)]:
        with store.get("w/ranged", offset, size) as stream:
            assert stream.read() == b""
    for size in (0, 1):
        with pytest.raises(ObjectNotFound):
            store.get("w/nothing", 5, size)


def test_an_etag_tells_what_was_written_from_what_came_later(store: ObjectStore) -> None:
    written = store.put("w/told", io.BytesIO(b"one"), 3)
    assert written.etag
    assert store.stat("w/told").etag == written.etag
    assert [each.etag for each in store.list("w/")] == [written.etag]
    copied = store.copy("w/told", "w/copied", etag=written.etag)
    assert store.stat("w/copied").etag == copied.etag
    assert put(store, "w/told", b"two") != written
    with pytest.raises(ObjectNotFound):
        store.copy("w/told", "w/copied", etag=written.etag)
    assert get(store, "w/copied") == b"one"


def test_what_is_known_to_be_small_is_copied_as_any_other(store: ObjectStore) -> None:
    name = "w/naïve + name %41.csv"
    put(store, name, b"other")
    copied = store.copy(name, f"{name}2", size=5)
    assert get(store, f"{name}2") == b"other"
    assert store.stat(f"{name}2").etag == copied.etag
    with pytest.raises(ObjectNotFound):
        store.copy("w/nothing", "w/copied", size=5)
    assert keys(store, "w/") == {name, f"{name}2"}


def test_a_link_is_only_for_objects_that_a_server_holds(store: ObjectStore) -> None:
    put(store, "w/linked", b"shared")
    link = store.presign("w/linked", 60, "naïve name.csv")
    if isinstance(store, LocalStore):
        assert link is None
        return
    assert link is not None
    with urllib.request.urlopen(link, timeout=120) as answer:
        assert answer.read() == b"shared"
    with pytest.raises(urllib.error.HTTPError):
        urllib.request.urlopen(link.replace("linked", "other"), timeout=120)


def test_a_large_object_goes_in_parts_and_comes_back_whole(store: ObjectStore) -> None:
    data = os.urandom(1 << 20) * 18 + b"tail"
    put(store, "w/large", data)
    assert store.stat("w/large").size == len(data)
    with store.get("w/large") as stream:
        digest = hashlib.file_digest(stream, "sha256")
    assert digest.digest() == hashlib.sha256(data).digest()


@pytest.mark.parametrize("size", [1000, 18 << 20])
def test_a_source_that_fails_leaves_the_object_as_it_was(store: ObjectStore, size: int) -> None:
    put(store, "w/kept", b"before")
    with pytest.raises(EOFError, match="torn"):
        store.put("w/kept", FailsHalfway(size), size)  # type: ignore[arg-type]
    assert get(store, "w/kept") == b"before"


@pytest.mark.parametrize("announced", [3, 5])
def test_a_source_of_another_size_than_announced_is_refused(store: ObjectStore, announced: int) -> None:
    with pytest.raises(StoreRefused, match="announced"):
        store.put("w/sized", io.BytesIO(b"1234"), announced)
    assert keys(store, "w/") == set()


@pytest.mark.parametrize("key", ["", "/etc/passwd", "w/../x", "w/./x", "w//x", "w/\0"])
def test_a_key_that_could_climb_out_is_refused(store: ObjectStore, key: str) -> None:
    with pytest.raises(IllegalName):
        put(store, key, b"")
    with pytest.raises(IllegalName):
        store.get(key)


def test_more_objects_than_one_page_holds(store: ObjectStore) -> None:
    wanted = {f"w/{number % 7}/{number:04}" for number in range(1003)}
    for key in wanted:
        put(store, key, b"")
    assert keys(store, "w/") == wanted
    store.delete(wanted)
    assert keys(store, "w/") == set()


def test_the_local_store_keeps_readable_files_and_no_leftovers(tmp_path: Path) -> None:
    store = LocalStore(str(tmp_path))
    put(store, "workspaces/sessions/1/workspace/data.csv", b"1")
    assert (tmp_path / "workspaces/sessions/1/workspace/data.csv").read_bytes() == b"1"
    assert list((tmp_path / ".incoming").iterdir()) == []
    store.delete(["workspaces/sessions/1/workspace/data.csv"])
    assert [path.name for path in tmp_path.iterdir()] == [".incoming"]


def test_a_check_of_the_local_store_removes_old_leftovers_and_minds_no_write_that_ends_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = LocalStore(str(tmp_path))
    store.check()
    old, fresh, copy = (tmp_path / ".incoming" / name for name in ("old", "fresh", "copy"))
    old.touch()
    with monkeypatch.context() as later:
        later.setattr(local, "LEFTOVER_SECONDS", -1)
        store.check()
    assert not old.exists()
    fresh.touch()
    put(store, "w/ancient", b"1")
    os.utime(tmp_path / "w/ancient", (0, 0))
    copy.hardlink_to(tmp_path / "w/ancient")  # as a copy that was begun just now
    stop = threading.Event()

    def write() -> None:
        while not stop.is_set():
            put(store, "w/a", b"1")

    writers = [threading.Thread(target=write) for _ in range(3)]
    for writer in writers:
        writer.start()
    try:
        for _ in range(100):
            store.check()
    finally:
        stop.set()
        for writer in writers:
            writer.join()
    assert {path.name for path in (tmp_path / ".incoming").iterdir()} == {"copy", "fresh"}


def test_the_local_store_follows_no_link(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.mkdir()
    (secret / "key").write_text("hidden")
    store = LocalStore(str(tmp_path / "store"))
    store.check()
    (tmp_path / "store/w").symlink_to(secret)
    (tmp_path / "store/file").symlink_to(secret / "key")
    for key in ("w/key", "file"):
        with pytest.raises(ObjectNotFound):
            store.get(key)
    with pytest.raises(StoreRefused):
        put(store, "w/new", b"")
    store.delete(["w/key"])
    assert [path.name for path in secret.iterdir()] == ["key"]
