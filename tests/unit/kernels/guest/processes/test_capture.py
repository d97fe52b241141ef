"""Output keeps its head and its tail, and says how much lay between."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kernels.guest.processes.capture import HeadTail


def test_what_fits_is_kept_whole() -> None:
    kept = HeadTail(10)
    kept.feed(b"12345")
    kept.feed(b"67890")
    assert (kept.text(), kept.cut_bytes) == ("1234567890", 0)


def test_the_middle_is_cut_and_counted() -> None:
    kept = HeadTail(10)
    for piece in (b"abcdefg", b"hijklmnopq", b"rstuvwxyz"):
        kept.feed(piece)
    assert kept.text() == "abcde\n[... 16 bytes cut ...]\nvwxyz"
    assert (kept.cut_bytes, kept.kept_bytes) == (16, 10)


def test_what_is_not_utf_8_is_replaced() -> None:
    kept = HeadTail(100)
    kept.feed(b"\xff\xfe ok")
    assert kept.text() == "\ufffd\ufffd ok"


@given(st.integers(0, 50), st.lists(st.binary(max_size=30)))
def test_never_more_than_the_limit_and_nothing_uncounted(limit: int, pieces: list[bytes]) -> None:
    kept = HeadTail(limit)
    for piece in pieces:
        kept.feed(piece)
    assert kept.kept_bytes <= limit
    assert kept.kept_bytes + kept.cut_bytes == sum(map(len, pieces))


def test_what_came_after_a_position_is_without_a_gap() -> None:
    kept = HeadTail(10)
    kept.feed(b"01234567")
    assert [kept.after(position) for position in (0, 3, 5, 8)] == [
        (0, b"01234"),
        (3, b"34"),
        (5, b"567"),
        (8, b""),
    ]
    kept.feed(b"89abcdef")
    assert [kept.after(position) for position in (0, 5, 8, 11, 13, 16, 20)] == [
        (0, b"01234"),
        (11, b"bcdef"),
        (11, b"bcdef"),
        (11, b"bcdef"),
        (13, b"def"),
        (16, b""),
        (20, b""),
    ]
