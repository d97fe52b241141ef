"""What an S3 store waits for has an end that says so: the store does not answer, nobody's file is to blame."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from workspace_sync import s3_store_download
from workspace_sync.errors import StoreUnavailable
from workspace_sync.s3_store_download import RangeReader
from workspace_sync.s3_store_requests import Piece


def test_a_range_that_does_not_come_is_the_stores_silence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(s3_store_download, "WAIT_SECONDS", 0.01)
    over = threading.Event()

    def fetch(offset: int, size: int) -> Piece:
        over.wait(60)
        return Piece(bytes(size), 10, "tag")

    with ThreadPoolExecutor(1) as executor:
        reader = RangeReader(Piece(b"first", 10, "tag"), 0, 10, fetch, executor=executor, places=threading.Semaphore(1))
        try:
            assert reader.read(5) == b"first"
            with pytest.raises(StoreUnavailable):
                reader.read(5)
        finally:
            over.set()
            reader.close()
