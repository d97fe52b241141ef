"""An object that breaks off goes on where it broke, and what never comes is the store's silence, nobody's file's."""

from __future__ import annotations

import pytest

from workspace_sync.errors import StoreUnavailable
from workspace_sync.stores.s3.download import ATTEMPTS, ObjectReader
from workspace_sync.stores.s3.stretch import ByteRange, stretch_of
from workspace_sync.stores.s3.wire import Answer, WireBroken

CONTENT = bytes(range(100))


class Broken:
    """A body that says how much comes and breaks off before."""

    def __init__(self, data: bytes, left: int, answer: Answer | None = None) -> None:
        self.answer = answer or Answer(206, {"content-range": f"bytes 0-{left - 1}/{left}", "etag": '"tag"'})
        self.left = left
        self.closed = False
        self._data = data

    def readinto(self, buffer: memoryview) -> int:
        if not self._data:
            raise WireBroken("it broke off")
        taken = min(7, len(buffer), len(self._data))
        buffer[:taken] = self._data[:taken]
        self._data = self._data[taken:]
        self.left -= taken
        return taken

    def close(self) -> None:
        self.closed = True


def broken(data: bytes, left: int) -> ByteRange:
    return ByteRange(Broken(data, left), len(CONTENT), "tag")  # type: ignore[arg-type]


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


def test_a_server_that_knows_no_ranges_gives_what_was_asked_for_all_the_same() -> None:
    body = Broken(CONTENT, 100, Answer(200, {"etag": '"tag"'}))
    stretch = stretch_of(body, 30)  # type: ignore[arg-type]
    assert (stretch.left, stretch.end, stretch.etag) == (70, 100, "tag")
    room = bytearray(5)
    assert stretch.readinto(room) == 5
    assert bytes(room) == CONTENT[30:35]


@pytest.mark.parametrize("told", ["bytes 1-100/200", "bytes 0-98/200"])
def test_other_bytes_than_were_asked_for_are_none(told: str) -> None:
    body = Broken(CONTENT, 100, Answer(206, {"content-range": told, "etag": '"tag"'}))
    with pytest.raises(StoreUnavailable, match="other bytes"):
        stretch_of(body, 0)  # type: ignore[arg-type]
    assert body.closed
