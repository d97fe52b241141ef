"""Signing and reading of Jupyter messages, with jupyter_client's own session as the other side."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jupyter_client.session import Session

from kernels.wire.message import (
    DELIMITER,
    LENIENT_BYTES,
    MOST_VALUES,
    Malformed,
    Message,
    Signer,
    read_unverified_parent,
)

KEY = b"a key"


def theirs() -> Session:
    return Session(key=KEY, signature_scheme="hmac-sha256")


def test_a_request_is_one_that_jupyter_reads() -> None:
    msg_id, frames = Signer(KEY).request("execute_request", {"code": "x = 'ä'"})
    _, parts = theirs().feed_identities(frames)
    read = theirs().deserialize(parts)
    assert (read["header"]["msg_id"], read["msg_type"]) == (msg_id, "execute_request")
    assert read["content"] == {"code": "x = 'ä'"}


def test_what_jupyter_writes_is_read() -> None:
    session = theirs()
    sent = session.msg("stream", {"name": "stdout", "text": "ö"}, parent={"msg_id": "p"})
    read = Signer(KEY).parse([b"topic", *session.serialize(sent), b"buffer"])
    assert (read.msg_type, read.parent_id, read.msg_id) == ("stream", "p", sent["header"]["msg_id"])
    assert read.content == {"name": "stdout", "text": "ö"}
    assert list(read.buffers) == [b"buffer"]


@pytest.mark.parametrize("length", [1, 63, 64, 65, 200])
@pytest.mark.parametrize("code", ["", "x" * 20_000])
def test_a_key_of_any_length_signs_as_jupyter_does(length: int, code: str) -> None:
    session = Session(key=bytes(range(1, length + 1)), signature_scheme="hmac-sha256")
    sent = session.msg("execute_input", {"code": code})
    read = Signer(session.key).parse([b"topic", *session.serialize(sent)])
    assert read.content == {"code": code}
    assert session.deserialize(Signer(session.key).sign(read.parts)[1:])["content"] == {"code": code}


def test_another_key_is_refused() -> None:
    _, frames = Signer(b"another").request("x", {})
    with pytest.raises(Malformed, match="signature"):
        Signer(KEY).parse(frames)


@given(st.lists(st.one_of(st.binary(max_size=40), st.just(DELIMITER)), max_size=8))
def test_any_frames_are_a_message_or_malformed(frames: list[bytes]) -> None:
    with pytest.raises(Malformed):
        Signer(KEY).parse(frames)
    assert isinstance(read_unverified_parent(frames), str)


@given(st.binary(max_size=60) | st.sampled_from([b"[" * 100_000, b'"\\ud800"', b"NaN", b'{"a": NaN, "b": "\\udc00"}']))
def test_any_content_is_an_object(content: bytes) -> None:
    signer = Signer(KEY)
    parts = [b'{"msg_id": "i", "msg_type": "t"}', b"{}", b"{}", content]
    message = signer.parse([DELIMITER, signer._signature(parts), *parts])
    assert isinstance(message.content, dict)


def message_of(content: bytes) -> Message:
    signer = Signer(KEY)
    parts = [b'{"msg_id": "i", "msg_type": "t"}', b"{}", b"{}", content]
    return signer.parse([DELIMITER, signer._signature(parts), *parts])


def test_content_of_too_many_values_is_not_decoded() -> None:
    within = message_of(b'{"a": [' + b"{}," * (MOST_VALUES // 3) + b"{}]}")
    beyond = message_of(b'{"a": [' + b"{}," * MOST_VALUES + b"{}]}")
    text = message_of(b'{"a": "' + b"," * 10 * MOST_VALUES + b'"}')
    assert [within.outgrown, beyond.outgrown, text.outgrown] == [False, True, False]
    assert [len(each.content) for each in (within, beyond, text)] == [1, 0, 1]


def test_long_content_must_be_strict() -> None:
    assert message_of(b'{"a": NaN, "b": "' + b"x" * 1000 + b'"}').content
    assert message_of(b'{"a": NaN, "b": "' + b"x" * LENIENT_BYTES + b'"}').content == {}
