"""ZMTP framing against bytes cut anywhere, against libzmq, and against peers that break it."""

from __future__ import annotations

import contextlib
import socket

import pytest
import zmq
from hypothesis import given
from hypothesis import strategies as st

from kernels.wire import zmtp
from kernels.wire.zmtp import Decoder, Oversized, ProtocolError

HANDSHAKE = zmtp.GREETING + zmtp.ready("ROUTER")


def fed(data: bytes, size: int = 10_000, most: int = 1_000_000) -> list[list[bytes] | Oversized]:
    """What a decoder makes of bytes that come in chunks of a size."""
    decoder = Decoder(most)
    return [message for at in range(0, len(data), size) for message in decoder.feed(data[at : at + size])]


@given(st.lists(st.lists(st.binary(max_size=400), min_size=1, max_size=5), max_size=6), st.integers(1, 700))
def test_messages_survive_any_cut(messages: list[list[bytes]], size: int) -> None:
    data = HANDSHAKE + b"".join(map(zmtp.encode, messages))
    assert fed(data, size) == messages


@given(st.binary(max_size=300), st.integers(1, 50))
def test_no_bytes_do_more_than_break_the_protocol(data: bytes, size: int) -> None:
    for start in (b"", HANDSHAKE):
        with contextlib.suppress(ProtocolError):
            fed(start + data, size)


@given(st.integers(1, 5000), st.lists(st.integers(0, 3000), min_size=1, max_size=4), st.integers(1, 2000))
def test_a_message_beyond_the_bound_is_skipped_and_the_next_is_read(bound: int, sizes: list[int], chunk: int) -> None:
    large = [bytes(size) for size in sizes]
    got = fed(HANDSHAKE + zmtp.encode(large) + zmtp.encode([b"n"]), chunk, bound)
    assert got[-1] == [b"n"]
    if sum(sizes) <= bound:
        assert got[0] == large
    else:
        assert isinstance(got[0], Oversized)
        assert got[0].size_bytes == sum(sizes)
        assert sum(map(len, got[0].frames)) <= bound


def test_what_is_kept_of_an_endless_frame_is_bounded() -> None:
    decoder = Decoder(1000)
    list(decoder.feed(HANDSHAKE + b"\x02" + (1 << 62).to_bytes(8, "big")))
    for _ in range(100):
        assert list(decoder.feed(bytes(100_000))) == []
        assert len(decoder._buffer) < 1000


def test_a_ping_is_answered() -> None:
    decoder = Decoder(1000)
    list(decoder.feed(HANDSHAKE + b"\x04\x0b\x04PING\x00\x01ctxt"))
    assert decoder.replies == b"\x04\x09\x04PONGctxt"


@pytest.mark.parametrize(
    "data",
    [
        b"HTTP/1.1 400 Bad Request\r\n\r\n",
        zmtp.GREETING.replace(b"NULL", b"CURV"),
        b"\xff" + bytes(8) + b"\x7f\x01",
        zmtp.GREETING + zmtp.encode([b"before the handshake"]),
        HANDSHAKE + b"\x10\x00",
        HANDSHAKE + b"\x05\x00",
        HANDSHAKE + b"\x06" + (1 << 40).to_bytes(8, "big"),
        zmtp.GREETING + b"\x04\x0a\x05ERROR\x03bad",
    ],
)
def test_a_peer_that_breaks_the_protocol_is_told_from_one_that_is_slow(data: bytes) -> None:
    with pytest.raises(ProtocolError):
        fed(data)


def test_libzmq_understands_what_is_sent_and_is_understood(short_directory: object) -> None:
    """Over a real socket of libzmq's, small and large frames."""
    with zmq.Context() as context, context.socket(zmq.ROUTER) as router:
        router.linger = 0
        router.rcvtimeo = router.sndtimeo = 120_000
        router.bind(f"ipc://{short_directory}/zmq")
        frames = [b"a", b"", b"b" * 255, b"c" * 256, b"d" * 100_000]
        with socket.socket(socket.AF_UNIX) as client:
            client.settimeout(120)
            client.connect(f"{short_directory}/zmq")
            client.sendall(zmtp.GREETING + zmtp.ready("DEALER", b"me"))
            decoder = Decoder(1_000_000)
            while not decoder.is_ready:
                assert list(decoder.feed(client.recv(7000))) == []
            client.sendall(zmtp.encode(frames))
            assert router.recv_multipart() == [b"me", *frames]
            router.send_multipart([b"me", *frames])
            got: list[list[bytes] | Oversized] = []
            while not got:
                got = list(decoder.feed(client.recv(7000)))
            assert got == [frames]
