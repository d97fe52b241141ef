"""Frames between the relay and the gateway: cut anywhere, and from peers that break them."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernels.guest.relay import frames
from kernels.guest.relay.frames import FrameDecoder, ProtocolError


def fed(data: bytes, size: int, most: int = 10_000) -> list[tuple[int, bytes]]:
    decoder = FrameDecoder(most)
    return [frame for at in range(0, len(data), size) for frame in decoder.feed(data[at : at + size])]


KINDS = st.integers(frames.HELLO, frames.WORD)


@given(st.lists(st.tuples(KINDS, st.binary(max_size=300)), max_size=8), st.integers(1, 400))
def test_frames_survive_any_cut(sent: list[tuple[int, bytes]], size: int) -> None:
    assert fed(b"".join(frames.encode(kind, body) for kind, body in sent), size) == sent


@given(st.binary(max_size=200), st.integers(1, 50))
def test_no_bytes_do_more_than_break_the_protocol(data: bytes, size: int) -> None:
    with contextlib.suppress(ProtocolError):
        for kind, body in fed(data, size):
            assert frames.HELLO <= kind <= frames.WORD
            frames.unpack(frames.GAP_BODY, body)


def test_a_frame_beyond_the_bound_is_refused_by_its_head() -> None:
    with pytest.raises(ProtocolError):
        FrameDecoder(100).feed(frames.HEAD.pack(101, frames.PIECE))


@given(st.integers(0, 2**64 - 1), st.integers(0, 3), st.binary(max_size=100), st.binary(max_size=100))
def test_a_request_comes_apart_as_it_was_put_together(number: int, channel: int, data: bytes, run: bytes) -> None:
    ((kind, body),) = fed(frames.encode_send(number, channel, data, run), 1000)
    assert (kind, frames.split_send(body)) == (frames.SEND, (number, channel, run, data))


@pytest.mark.parametrize("body", [b"", bytes(12), frames.SEND_HEAD.pack(1, 1, 0), frames.SEND_HEAD.pack(1, 0, 4)])
def test_a_request_that_makes_no_sense_is_refused(body: bytes) -> None:
    with pytest.raises(ProtocolError):
        frames.split_send(body)
