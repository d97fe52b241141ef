"""A kernel's bytes cut into pieces: together they are what came, and long messages are never held whole."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernels.guest.relay import frames, splitter
from kernels.guest.relay.frames import FIRST, LAST, MOST_FROM_GUEST, MOST_PIECE_BYTES, PIECE_BYTES, ProtocolError
from kernels.guest.relay.splitter import Splitter
from kernels.wire import zmtp

HANDSHAKE = splitter.GREETING + splitter.ready("ROUTER", b"")


def split(data: bytes, size: int) -> list[tuple[int, bytes]]:
    one = Splitter()
    return [piece for at in range(0, len(data), size) for piece in one.feed(data[at : at + size])]


@given(st.lists(st.lists(st.binary(max_size=400), min_size=1, max_size=5), max_size=6), st.integers(1, 700))
def test_each_message_is_a_piece_wherever_its_bytes_are_cut(messages: list[list[bytes]], size: int) -> None:
    encoded = [zmtp.encode(each) for each in messages]
    ping = b"\x04\x07\x04PING\0\0"
    assert split(HANDSHAKE + ping.join(encoded), size) == [(FIRST | LAST, each) for each in encoded]


@given(st.binary(max_size=300), st.integers(1, 50))
def test_no_bytes_do_more_than_break_the_protocol(data: bytes, size: int) -> None:
    for start in (b"", HANDSHAKE):
        with contextlib.suppress(ProtocolError):
            split(start + data, size)


def test_a_long_message_comes_in_pieces_and_is_never_held_whole() -> None:
    message = zmtp.encode([b"topic", bytes(5 * PIECE_BYTES), b"end"])
    one, pieces = Splitter(), list[tuple[int, bytes]]()
    for at in range(0, len(HANDSHAKE + message), 1000):
        pieces += one.feed((HANDSHAKE + message)[at : at + 1000])
        assert len(one._buffer) < PIECE_BYTES + 1000
    assert b"".join(data for _, data in pieces) == message
    flags = [flags for flags, _ in pieces]
    assert (flags[0], flags[-1], set(flags[1:-1])) == (FIRST, LAST, {0})
    assert max(len(data) for _, data in pieces) < 2 * PIECE_BYTES


@pytest.mark.parametrize("read", [1, 2, 4, 9])
def test_no_piece_is_longer_than_a_piece_may_be_however_much_is_read_at_once(read: int) -> None:
    """A loop reads up to 256 KiB at once, and more where less than a piece was left of the read before."""
    messages = [
        zmtp.encode([b"topic", bytes(size)]) for size in (PIECE_BYTES - 9, 10 * PIECE_BYTES, 3, 5 * PIECE_BYTES)
    ]
    pieces = split(HANDSHAKE + b"".join(messages), read * PIECE_BYTES - 1)
    assert b"".join(data for _, data in pieces) == b"".join(messages)
    assert max(len(data) for _, data in pieces) <= MOST_PIECE_BYTES < MOST_FROM_GUEST - frames.PIECE_HEAD.size
    assert [flags & FIRST for flags, _ in pieces].count(FIRST) == len(messages)
    assert [flags & LAST for flags, _ in pieces].count(LAST) == len(messages)
    begins = [flags & FIRST for flags, _ in pieces]
    assert all(begins[at + 1] == FIRST for at, (flags, _) in enumerate(pieces[:-1]) if flags & LAST)


def test_a_ping_is_answered_and_passed_on_to_nobody() -> None:
    one = Splitter()
    assert one.feed(HANDSHAKE + b"\x04\x09\x04PING\0\0ab") == []
    assert one.replies == b"\x04\x07\x04PONGab"


@pytest.mark.parametrize(
    "data",
    [
        b"HTTP/1.1 200 OK\r\n",
        splitter.GREETING + b"\x00\x01a",
        HANDSHAKE + b"\x08\x01a",
        HANDSHAKE + b"\x01\x01a\x04\x00",
    ],
    ids=["no ZMTP", "before the handshake", "unknown flags", "a command within a message"],
)
def test_a_kernel_that_leaves_the_protocol_is_refused(data: bytes) -> None:
    with pytest.raises(ProtocolError):
        Splitter().feed(data)
