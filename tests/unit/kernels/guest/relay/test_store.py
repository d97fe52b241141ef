"""What is kept of a kernel's words: all within the bounds; head, end and replies beyond them; each number once."""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernels.guest.relay import frames, store
from kernels.guest.relay.frames import FIRST, IOPUB, LAST, FrameDecoder
from kernels.guest.relay.store import Store

OPEN = list[int]


def open_file() -> int:
    file, path = tempfile.mkstemp()
    Path(path).unlink()
    return file


def full_disk() -> int:
    raise OSError(errno.ENOSPC, "no space left")


def numbers(kept: Store, since: int = 1) -> list[tuple[int, int, bool]]:
    """First and last number of each frame that is read from there on, and whether it is a gap."""
    found, position = [], since
    while position < kept.next:
        data, position = kept.read(position)
        for kind, body in FrameDecoder(frames.MOST_FROM_GUEST).feed(data):
            first = frames.NUMBER.unpack_from(body)[0]
            last = frames.GAP_BODY.unpack(body)[1] if kind == frames.GAP else first
            found.append((first, last, kind == frames.GAP))
    return found


@pytest.fixture(autouse=True)
def small_segments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "SEGMENT_BYTES", 200)


@settings(max_examples=60)
@given(
    st.lists(st.tuples(st.sampled_from([0, IOPUB, IOPUB, IOPUB]), st.integers(0, 300)), max_size=80),
    st.integers(0, 90),
    st.integers(1, 90),
    st.sampled_from([open_file, full_disk]),
)
def test_every_number_is_told_once_and_in_order(
    said: list[tuple[int, int]], acknowledged: int, since: int, make: Callable[[], int]
) -> None:
    kept = Store(make, memory_bytes=1000, disk_bytes=3000)
    try:
        for count, (channel, size) in enumerate(said):
            kept.append_piece(channel, FIRST | LAST, bytes(size))
            if count == 40:
                kept.acknowledge(min(acknowledged, kept.next - 1))
        start = max(since, kept.first)
        position = start
        for first, last, _ in numbers(kept, start):
            assert first <= position <= last
            position = last + 1
        assert position == max(kept.next, start)
    finally:
        kept.close()


@pytest.mark.parametrize("make", [open_file, full_disk])
def test_beyond_the_bound_the_head_the_end_and_replies_stay(make: Callable[[], int]) -> None:
    kept = Store(make, memory_bytes=2000, disk_bytes=4000)
    for count in range(1000):
        kept.append_piece(0 if count == 500 else IOPUB, FIRST | LAST, bytes(50))
    found = numbers(kept)
    assert found[0] == (1, 1, False)
    assert found[-1] == (1000, 1000, False)
    assert (501, 501, False) in found, "the reply"
    assert sum(gap for _, _, gap in found) == 2, "before it and after it"
    assert kept._size < 6000
    kept.close()


def test_what_is_acknowledged_takes_nothing_any_more() -> None:
    opened: OPEN = []

    def make() -> int:
        opened.append(open_file())
        return opened[-1]

    kept = Store(make, memory_bytes=400, disk_bytes=100_000)
    for _ in range(100):
        kept.append_piece(IOPUB, FIRST | LAST, bytes(90))
    assert opened
    kept.acknowledge(100)
    assert (kept.first, kept.next, kept._size) == (101, 101, 0)
    for file in opened:
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(file)


def test_a_wrong_acknowledgement_forgets_no_more_than_there_is() -> None:
    kept = Store(open_file)
    kept.append_piece(IOPUB, FIRST | LAST, b"a")
    kept.acknowledge(2**63)
    kept.append_word(b"{}")
    assert numbers(kept, kept.first) == [(2, 2, False)]
