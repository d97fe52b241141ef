"""Names swapped for links at the worst moment: after they were looked at, before they are opened."""

from __future__ import annotations

import io
import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from workspace_sync import TransferLimits
from workspace_sync.directory.safe_open import GONE, opened_directory
from workspace_sync.entry import Entry
from workspace_sync.errors import DirectoryUnusable
from workspace_sync.mirroring.transfer import Transfer
from workspace_sync.stores.local import LocalStore


@pytest.fixture
def live(tmp_path: Path) -> Path:
    """A directory in which `real` was swapped for a link to a secret directory, and `file` for one to a secret file."""
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret/file").write_text("SECRET")
    live = tmp_path / "live"
    live.mkdir()
    (live / "real").symlink_to(tmp_path / "secret")
    (live / "file").symlink_to(tmp_path / "secret/file")
    os.mkfifo(live / "fifo")
    return live


@pytest.fixture
def transfer(live: Path, tmp_path: Path) -> Iterator[Transfer]:
    root = os.open(live, os.O_RDONLY)
    store = LocalStore(str(tmp_path / "store"))
    yield Transfer(root, store, "w/", None, TransferLimits(), threading.Event())
    os.close(root)


@pytest.mark.parametrize("path", [b"real/file", b"file", b"fifo", b"real"])
def test_what_was_swapped_is_not_sent(transfer: Transfer, path: bytes) -> None:
    assert transfer.send(path, None) is None
    assert list(transfer.store.list("w/")) == []


@pytest.mark.parametrize("make", [False, True])
def test_a_swapped_directory_is_not_entered(transfer: Transfer, make: bool) -> None:
    with (
        pytest.raises(OSError, match=r"Not a directory|Too many levels") as refused,
        opened_directory(transfer.root, b"real", make=make),
    ):
        pass
    assert refused.value.errno in GONE


def test_a_restored_file_replaces_a_link_and_does_not_pass_through_one(transfer: Transfer, tmp_path: Path) -> None:
    for key in ("file", "real/file"):
        transfer.store.put(f"w/{key}", io.BytesIO(b"new"), 3)
    assert transfer.fetch(Entry(b"file", "file", 3), "file") is not None
    with pytest.raises(DirectoryUnusable, match="cannot be written"):
        transfer.fetch(Entry(b"real/file", "file", 3), "real/file", 0.0)
    assert (tmp_path / "live/file").read_text() == "new"
    assert (tmp_path / "secret/file").read_text() == "SECRET"
