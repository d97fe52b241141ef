"""Bytes that are damaged on their way from the store are asked for again; what the store really holds is taken."""

from __future__ import annotations

import asyncio
import io
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import BinaryIO

import pytest

from tests.doubles.away_store import AwayStore
from workspace_sync import Mirror, ObjectStore, TransferLimits
from workspace_sync.stores.local import LocalStore

DEADLINE_SECONDS = 120.0
PREFIX = "workspaces/sessions/one"
LIMITS = TransferLimits(settle_seconds=0.01)


class DamagingStore(AwayStore):
    """What is read of a file arrives as `damaged` says, one after the other, then as it is."""

    def __init__(self, behind: ObjectStore, damaged: list[bytes]) -> None:
        super().__init__(behind)
        self._damaged = damaged

    def get(self, key: str, offset: int = 0, size: int | None = None) -> BinaryIO:
        if key.endswith("/file") and self._damaged:
            return io.BytesIO(self._damaged.pop(0))
        return super().get(key, offset, size)


@pytest.mark.parametrize(
    ("damaged", "restored"),
    [([b"whale"], b"whole"), ([b"whale", b"who"], b"whole"), ([b"rotten", b"rotten"], b"rotten")],
    ids=["once", "twice", "at-rest"],
)
def test_damaged_bytes_are_asked_for_again(
    damaged: list[bytes], restored: bytes, tmp_path: Path, executor: ThreadPoolExecutor
) -> None:
    before, after = tmp_path / "before", tmp_path / "after"
    for directory in (before, after):
        directory.mkdir()
    (before / "file").write_bytes(b"whole")
    store = LocalStore(str(tmp_path / "store"))

    async def run() -> None:
        mirror = Mirror(str(before), store, PREFIX, limits=LIMITS, executor=executor)
        try:
            await mirror.flush(DEADLINE_SECONDS)
        finally:
            await mirror.aclose()
        mirror = Mirror(str(after), DamagingStore(store, damaged), PREFIX, limits=LIMITS, executor=executor)
        try:
            await mirror.restore()
        finally:
            await mirror.aclose()

    asyncio.run(run())
    assert (after / "file").read_bytes() == restored
