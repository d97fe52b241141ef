"""An object that breaks off goes on where it broke, and what never comes is the store's silence, no file's fault."""

from __future__ import annotations

import io

import pytest

from workspace_sync.errors import StoreUnavailable
from workspace_sync.stores.s3 import download
from workspace_sync.stores.s3.download import ATTEMPTS, ByteRange, ObjectReader, make_range

CONTENT = bytes(range(100))


class Broken:
    """A body that breaks off when it has given its bytes, a few at a time."""

    def __init__(self, data: bytes) -> None:
        self.closed = False
        self._data = data

    def read(self, size: int) -> bytes:
        if not self._data:
            raise ConnectionResetError
        piece, self._data = self._data[: min(7, size)], self._data[min(7, size) :]
        return piece

    def close(self) -> None:
        self.closed = True


def broken(data: bytes, left: int) -> ByteRange:
    return ByteRange(Broken(data), left, len(CONTENT), "tag")


def test_what_breaks_off_is_asked_for_from_where_it_broke() -> None:
    asked = []

    def ask(offset: int, size: int) -> ByteRange:
        asked.append((offset, size))
        return broken(CONTENT[offset : offset + 40], size)

    with ObjectReader(broken(CONTENT[:40], 100), 0, 100, ask) as reader:
        assert reader.readall() == CONTENT
    assert asked == [(40, 60), (80, 20)]


def test_what_breaks_off_again_and_again_without_a_byte_is_the_stores_silence() -> None:
    asked = []

    def ask(offset: int, size: int) -> ByteRange:
        asked.append(offset)
        return broken(b"", size)

    with ObjectReader(broken(CONTENT[:10], 100), 0, 100, ask) as reader:
        assert reader.read(10) == CONTENT[:7]
        assert reader.read(10) == CONTENT[7:10]
        with pytest.raises(StoreUnavailable, match="breaks off"):
            reader.read(10)
    assert asked == [10] * (ATTEMPTS - 1)


def test_what_ends_too_early_without_an_error_is_broken_as_well() -> None:
    begun = ByteRange(io.BytesIO(CONTENT[:5]), 10, 10, "tag")
    room = bytearray(10)
    assert begun.readinto(room) == 5
    assert begun.readinto(room) == 0
    assert begun.left == 5


def test_what_takes_too_long_as_a_whole_is_broken_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(download, "WAIT_SECONDS", -1.0)
    slow = ByteRange(io.BytesIO(CONTENT), 100, 100, "tag")
    assert slow.readinto(bytearray(10)) == 0
    reader = ObjectReader(slow, 0, 100, lambda _, size: ByteRange(io.BytesIO(CONTENT), size, 100, "tag"))
    with reader, pytest.raises(StoreUnavailable, match="breaks off"):
        reader.read(10)


def test_a_server_that_knows_no_ranges_gives_what_was_asked_for_all_the_same() -> None:
    found = make_range(Broken(CONTENT), 100, "tag", None, 30)
    assert (found.left, found.end, found.etag) == (70, 100, "tag")
    room = bytearray(5)
    assert found.readinto(room) == 5
    assert bytes(room) == CONTENT[30:35]


@pytest.mark.parametrize("told", ["bytes 1-100/200", "bytes 0-98/200", "bytes 0-99/*", ""])
def test_other_bytes_than_were_asked_for_are_none(told: str) -> None:
    body = Broken(CONTENT)
    with pytest.raises(StoreUnavailable, match="other bytes"):
        make_range(body, 100, "tag", told, 0)
    assert body.closed
