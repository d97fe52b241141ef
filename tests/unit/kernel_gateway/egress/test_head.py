"""Heads that two programs could read differently are refused, and what proxies keep to themselves is not passed on."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel_gateway.egress.budget import EgressLimits
from kernel_gateway.egress.head import BadHead, check, end_of, select_forwarded, select_framing
from kernel_gateway.egress.intake import BadRequest, read

LIMITS = EgressLimits()
LINE = b"POST http://example.com/ HTTP/1.1\r\n"
HOST = b"Host: example.com\r\n"


@pytest.mark.parametrize(
    "head",
    [
        LINE + HOST + b"\r\n",
        LINE + HOST + b"Content-Length: 5\r\nAccept:\t*/*  \r\nX-Empty:\r\n\r\n",
        LINE + HOST + b"transfer-encoding: Chunked\r\n\r\n",
        LINE + HOST + b"X: caf\xc3\xa9\r\n\r\n",
        b"GET http://example.com/ HTTP/1.0\r\n\r\n",
        b"CONNECT example.com:443 HTTP/1.0\r\n\r\n",
    ],
)
def test_plain_heads_pass(head: bytes) -> None:
    check(head)
    read(head, b"", LIMITS)


BAD = {
    "bad_request_line": [
        b"GET http://example.com/\r\n" + HOST,
        b"GET  http://example.com/ HTTP/1.1\r\n" + HOST,
        b"GET http://example.com/ HTTP/1.1 \r\n" + HOST,
        b" GET http://example.com/ HTTP/1.1\r\n" + HOST,
        b"GET http://example.com/ HTTP/2.0\r\n" + HOST,
        b"GET http://example.com/ HTTP/1.10\r\n" + HOST,
        b"GET http://example.com/ http/1.1\r\n" + HOST,
        b"GET http://example.com/ a HTTP/1.1\r\n" + HOST,
        b"G\x00T http://example.com/ HTTP/1.1\r\n" + HOST,
        b"GET http://example.com/\xff HTTP/1.1\r\n" + HOST,
        b"GET http://example.com/\x0b HTTP/1.1\r\n" + HOST,
        b"PRI * HTTP/2.0\r\n",
        b"\r\n" + LINE + HOST,
        b"\x16\x03\x01\r\n",
    ],
    "bad_field": [
        LINE + HOST + b"X: a\r\n b\r\n",
        LINE + b" Host: example.com\r\n",
        LINE + HOST + b"X : a\r\n",
        LINE + HOST + b"X\r\n",
        LINE + HOST + b": a\r\n",
        LINE + HOST + b"X: a\x00b\r\n",
        LINE + HOST + b"X: a\rb\r\n",
        LINE + HOST + b"X: a\x0bb\r\n",
        LINE + HOST + b"Content-Length\xa0: 5\r\n",
        LINE + HOST + b"X\x00: 5\r\n",
        LINE + HOST + b"Transfer-Encoding\t: chunked\r\n",
    ],
    "repeated_field": [
        LINE + HOST + HOST,
        LINE + HOST + b"Content-Length: 5\r\nContent-Length: 5\r\n",
        LINE + HOST + b"Content-Length: 5\r\ncontent-length: 6\r\n",
        LINE + HOST + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n",
    ],
    "two_lengths": [
        LINE + HOST + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
        LINE + HOST + b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n",
    ],
    "bad_length": [
        LINE + HOST + b"Content-Length: " + value + b"\r\n"
        for value in (b"+5", b"-5", b"0x5", b"5, 5", b"5 5", b"", b"1e3", b"5_0", b"9" * 19, b"\xd9\xa5")
    ],
    "bad_coding": [
        *(
            LINE + HOST + b"Transfer-Encoding: " + value + b"\r\n"
            for value in (
                b"gzip, chunked",
                b"chunked, identity",
                b"identity",
                b"xchunked",
                b"chunked;q=1",
                b'"chunked"',
                b"",
            )
        ),
        b"POST http://example.com/ HTTP/1.0\r\nTransfer-Encoding: chunked\r\n",
    ],
    "no_host": [LINE],
    "too_many_fields": [LINE + HOST + b"X: a\r\n" * 101],
}


@pytest.mark.parametrize(("word", "head"), [(word, head) for word, heads in BAD.items() for head in heads])
def test_other_heads_are_refused_with_a_word(word: str, head: bytes) -> None:
    with pytest.raises(BadHead) as refused:
        check(head + b"\r\n")
    assert refused.value.word == word


@pytest.mark.parametrize("data", [b"GET / HTTP/1.1\nHost: x\n\n", b"A: b\r\nC: d\n\r\n\r\n", b"\n", b"A\r\nB\n"])
def test_a_bare_line_feed_is_refused_as_it_comes(data: bytes) -> None:
    with pytest.raises(BadHead, match="carriage return"):
        end_of(data)


@given(st.integers(1, 60), st.integers(1, 7))
def test_the_end_is_found_however_the_head_comes(size: int, piece: int) -> None:
    data = b"A: " + b"b" * size + b"\r\nC: d\r\n\r\nrest"
    come, found = b"", 0
    while not found:
        before = len(come)
        come = data[: before + piece]
        found = end_of(come, before)
    assert data[:found] == data.removesuffix(b"rest")


@pytest.mark.parametrize(
    ("head", "word", "status"),
    [
        (LINE + b"Host: other.example\r\n\r\n", "other_host", 400),
        (LINE + b"host: other.example\r\n\r\n", "other_host", 400),
        (b"GET /path HTTP/1.1\r\n" + HOST + b"\r\n", "bad_target", 400),
        (b"GET http://0x7f.1/ HTTP/1.1\r\nHost: 0x7f.1\r\n\r\n", "odd_address", 403),
        (b"CONNECT example.com HTTP/1.1\r\n" + HOST + b"\r\n", "bad_target", 400),
        (b"CONNECT http://example.com/ HTTP/1.1\r\n" + HOST + b"\r\n", "bad_target", 400),
        (b"connect example.com:443 HTTP/1.1\r\n" + HOST + b"\r\n", "bad_target", 400),
        (b"CONNECT example.com:443 HTTP/1.1\r\nHost: other.example:443\r\n\r\n", "other_host", 400),
    ],
)
def test_a_target_that_is_not_what_its_host_header_says_is_refused(head: bytes, word: str, status: int) -> None:
    with pytest.raises(BadRequest) as refused:
        read(head, b"", LIMITS)
    assert (refused.value.verdict.word, refused.value.status) == (word, status)


PARTS = st.sampled_from(
    [
        b"GET ",
        b"CONNECT ",
        b"http://",
        b"example.com",
        b"127.0.0.1",
        b":80",
        b"/",
        b" HTTP/1.1",
        b"\r\n",
        b"Host: ",
        b"\n",
        b"Content-Length: 5",
        b"Transfer-Encoding: chunked",
        b" ",
        b"\x00",
        b"@",
        b"\xff",
        b"[::1]",
        b"0x7f.1",
        b"X: y",
    ]
)


@given(st.lists(PARTS, max_size=16).map(b"".join))
def test_whatever_comes_is_read_to_one_target_or_refused(start: bytes) -> None:
    raw = start + b"\r\n\r\n"
    raw = raw[: raw.index(b"\r\n\r\n") + 4]
    try:
        asked = read(raw, b"", LIMITS)
    except BadRequest:
        return
    shown = asked.target.host.encode()
    assert shown in raw.lower()
    assert (asked.kind == "connect") == raw.startswith(b"CONNECT ")


def test_what_is_recorded_of_a_bad_request_has_neither_password_nor_query() -> None:
    with pytest.raises(BadRequest) as refused:
        read(b"GET http://me:secret@example.com/a?token=secret HTTP/1.1\r\nHost: example.com\r\n\r\n", b"", LIMITS)
    assert (refused.value.method, refused.value.shown) == ("GET", "example.com/a")


def test_what_concerns_one_connection_is_not_passed_on() -> None:
    kept = [(b"Accept", b"*/*"), (b"X-Forwarded-For", b"1.1.1.1"), (b"Cookie", b"a=b")]
    dropped = [
        *((name, b"x") for name in (b"Connection", b"Keep-Alive", b"TE", b"Trailer", b"Upgrade", b"HTTP2-Settings")),
        *((name, b"x") for name in (b"Proxy-Authorization", b"proxy-connection", b"PROXY-anything", b"Expect")),
        *((name, b"x") for name in (b"Host", b"Content-Length", b"Transfer-Encoding", b"X-Mine", b"x-other")),
        (b"Connection", b"X-Mine, close ,X-OTHER"),
    ]
    assert select_forwarded([*dropped, *kept]) == kept


def test_the_length_is_said_once() -> None:
    assert select_framing([(b"Accept", b"x")]) == []
    assert select_framing([(b"content-length", b"5")]) == [(b"Content-Length", b"5")]
    both = [(b"Content-Length", b"5"), (b"Transfer-Encoding", b"Chunked")]
    assert select_framing(both) == select_framing(reversed(both)) == [(b"Transfer-Encoding", b"chunked")]
