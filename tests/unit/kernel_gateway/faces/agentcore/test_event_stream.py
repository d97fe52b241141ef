"""Event-stream framing: the samples byte for byte, and botocore's own parser as the judge of everything else."""

from __future__ import annotations

import json

import pytest
from botocore.eventstream import EventStreamBuffer
from hypothesis import given
from hypothesis import strategies as st

from kernel_gateway.faces.agentcore import event_stream

RESULT = bytes.fromhex(
    "000000950000004c03ae7ab20b3a6576656e742d74797065070006726573756c740d3a636f6e74656e742d74797065070010"
    "6170706c69636174696f6e2f6a736f6e0d3a6d6573736167652d74797065070005"
    "6576656e747b22636f6e74656e74223a5b"
    "7b2274797065223a2274657874222c2274657874223a226869227d5d2c2269734572726f72223a66616c73657d56406861"
)
EXCEPTION = bytes.fromhex(
    "0000008800000061de0175f40f3a657863657074696f6e2d747970650700137468726f74746c696e67457863657074696f6e"
    "0d3a636f6e74656e742d747970650700106170706c69636174696f6e2f6a736f6e0d3a6d6573736167652d74797065070009"
    "657863657074696f6e7b226d657373616765223a22736c6f7720646f776e227d832ee072"
)
KEEP_ALIVE = bytes.fromhex(
    "000000610000004f2713dd950b3a6576656e742d747970650700096b656570616c6976650d3a636f6e74656e742d74797065"
    "0700106170706c69636174696f6e2f6a736f6e0d3a6d6573736167652d747970650700056576656e747b7d61bd906b"
)


def test_the_samples_byte_for_byte() -> None:
    payload = b'{"content":[{"type":"text","text":"hi"}],"isError":false}'
    assert b"".join(event_stream.frame_result(payload)) == RESULT
    assert b"".join(event_stream.frame_exception("throttlingException", b'{"message":"slow down"}')) == EXCEPTION
    assert event_stream.KEEP_ALIVE == KEEP_ALIVE


@given(
    payload=st.one_of(
        st.binary(max_size=2_000),
        st.sampled_from([event_stream.PIECE_BYTES + each for each in (-1, 0, 1)]).map(bytes),
    ),
    headers=st.dictionaries(st.text("abc:-", min_size=1, max_size=60), st.text(max_size=200), max_size=5),
)
def test_botocore_reads_what_we_write(payload: bytes, headers: dict[str, str]) -> None:
    buffer = EventStreamBuffer()
    for piece in event_stream.frame_message(headers, payload):
        buffer.add_data(piece)
    buffer.add_data(event_stream.KEEP_ALIVE)
    first, second = list(buffer)
    assert first.headers == headers
    assert first.payload == payload
    assert json.loads(second.payload) == {}


def test_no_piece_is_larger_than_the_bound() -> None:
    whole = list(event_stream.frame_result(bytes(3 * event_stream.PIECE_BYTES + 1)))
    assert max(map(len, whole)) <= event_stream.PIECE_BYTES


@pytest.mark.parametrize("place", [3, 9, 40, -6, -1])
def test_botocore_notices_a_changed_byte(place: int) -> None:
    """The parser is an oracle: it does not take just anything."""
    damaged = bytearray(RESULT)
    damaged[place] ^= 1
    buffer = EventStreamBuffer()
    with pytest.raises(Exception, match=r"(?i)checksum|length"):  # noqa: PT012 - either may notice
        buffer.add_data(bytes(damaged))
        list(buffer)
