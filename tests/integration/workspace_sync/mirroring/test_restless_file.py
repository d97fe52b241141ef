"""A file that changes while it is copied aside is copied again; one that is removed while it is read is let go."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import BinaryIO

from workspace_sync import TransferLimits, Written
from workspace_sync.mirroring.transfer import Transfer
from workspace_sync.store import CHUNK_BYTES
from workspace_sync.stores.local import LocalStore

SIZE = 2 * CHUNK_BYTES


class Interrupting(threading.Event):
    """Rewrites a file the first time a job asks whether to stop."""

    def __init__(self, file: Path) -> None:
        super().__init__()
        self._file = file
        self._done = False

    def is_set(self) -> bool:
        if not self._done:
            self._done = True
            with self._file.open("r+b") as written:
                written.write(b"b" * SIZE)
        return super().is_set()


def test_a_restless_file_is_sent_as_of_a_moment_in_which_it_rested(tmp_path: Path) -> None:
    live, store = tmp_path / "live", LocalStore(str(tmp_path / "store"))
    live.mkdir()
    (live / "file").write_bytes(b"a" * SIZE)
    root = os.open(live, os.O_RDONLY)
    try:
        limits = TransferLimits(read_attempts=0)  # as after these
        transfer = Transfer(root, store, "one/", None, limits, Interrupting(live / "file"))
        assert transfer.send(b"file", None) is not None
    finally:
        os.close(root)
    with store.get("one/file") as stream:
        assert set(stream.read()) == {ord("b")}


def test_a_file_that_is_removed_while_it_is_read_is_let_go(tmp_path: Path) -> None:
    """A file is removed to make room, which comes once no process has it open."""
    live = tmp_path / "live"
    live.mkdir()
    (live / "file").write_bytes(b"a" * 10 * CHUNK_BYTES)
    taken = []

    class Removing(LocalStore):
        def put(self, key: str, source: BinaryIO, size: int) -> Written:
            while piece := source.read(CHUNK_BYTES):
                taken.append(len(piece))
                (live / "file").unlink(missing_ok=True)
            raise AssertionError("it was read to its end")

    root = os.open(live, os.O_RDONLY)
    try:
        store = Removing(str(tmp_path / "store"))
        transfer = Transfer(root, store, "one/", None, TransferLimits(), threading.Event())
        assert transfer.send(b"file", None) is None
    finally:
        os.close(root)
    assert taken == [CHUNK_BYTES]
