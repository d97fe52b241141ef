"""Copies inside a local store: further names of a file, which no later write changes."""

from __future__ import annotations

import errno
import io
import os
from pathlib import Path

import pytest

from workspace_sync.errors import ObjectNotFound
from workspace_sync.stores.local import LocalStore


def put(store: LocalStore, key: str, data: bytes) -> None:
    store.put(key, io.BytesIO(data), len(data))


def get(store: LocalStore, key: str) -> bytes:
    with store.get(key) as stream:
        return stream.read()


def test_a_copy_is_the_same_file_until_either_is_replaced(tmp_path: Path) -> None:
    store = LocalStore(str(tmp_path))
    put(store, "w/one", b"first")
    written = store.copy("w/one", "deep/er/two")
    assert (tmp_path / "w/one").samefile(tmp_path / "deep/er/two")
    assert store.stat("deep/er/two").etag == written.etag
    store.copy("w/one", "deep/er/two")  # a rename over another name of the same file does nothing
    store.copy("w/one", "w/one")
    assert list((tmp_path / ".incoming").iterdir()) == []
    put(store, "w/one", b"second")
    assert (get(store, "w/one"), get(store, "deep/er/two")) == (b"second", b"first")
    store.delete(["w/one"])
    assert get(store, "deep/er/two") == b"first"
    (tmp_path / "w").mkdir()
    (tmp_path / "w/link").symlink_to(tmp_path / "deep/er/two")
    with pytest.raises(ObjectNotFound):
        store.copy("w/link", "w/three")


@pytest.mark.parametrize("number", [errno.EMLINK, errno.EPERM, errno.EXDEV])
def test_where_there_are_no_such_names_bytes_are_copied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(number, os.strerror(number))

    store = LocalStore(str(tmp_path))
    put(store, "w/one", b"first")
    monkeypatch.setattr(os, "link", refuse)
    written = store.copy("w/one", "w/two", etag=store.stat("w/one").etag)
    assert not (tmp_path / "w/one").samefile(tmp_path / "w/two")
    assert (get(store, "w/two"), store.stat("w/two").etag) == (b"first", written.etag)
    assert list((tmp_path / ".incoming").iterdir()) == []
