"""What a stranger sends is read in time that grows with its length: the loop is everybody's."""

from __future__ import annotations

import time
from collections.abc import Callable

import h11
import pytest

from kernel_gateway.egress.head import BadHead, check
from kernel_gateway.egress.linear import open_connection

BLANKS = b" " * 20_000
LETTERS = b"x" * 20_000
HEAD = b"GET http://a/ HTTP/1.1\r\nHost: a\r\n"
MOST_TIMES_AS_LONG = 500
"""Linear time takes a few times as long, the square of it some ten thousand times."""


def of_head(line: bytes) -> None:
    with pytest.raises(BadHead):
        check(HEAD + line + b"\r\n\r\n")


def of_request(line: bytes) -> None:
    asked = open_connection(h11.SERVER, 65_536)
    asked.receive_data(HEAD + line + b"\r\n\r\n")
    with pytest.raises(h11.RemoteProtocolError, match="illegal header line"):
        asked.next_event()


def asking(head: bytes) -> h11.Connection:
    made = open_connection(h11.CLIENT, 65_536)
    made.send(h11.Request(method="GET", target="/", headers=[("Host", "a")]))
    made.send(h11.EndOfMessage())
    made.receive_data(b"HTTP/1.1 200 OK\r\n" + head)
    return made


def of_answer(line: bytes) -> None:
    with pytest.raises(h11.RemoteProtocolError, match="illegal header line"):
        asking(line + b"\r\n\r\n").next_event()


def of_trailer(line: bytes) -> None:
    made = asking(b"Transfer-Encoding: chunked\r\n\r\n0\r\n" + line + b"\r\n\r\n")
    made.next_event()
    with pytest.raises(h11.RemoteProtocolError, match="illegal header line"):
        made.next_event()


def of_chunk(line: bytes) -> None:
    made = asking(b"Transfer-Encoding: chunked\r\n\r\n5" + line.replace(b"a:", b";").replace(b"\0", b"\n") + b"\r\n")
    made.next_event()
    with pytest.raises(h11.RemoteProtocolError, match="illegal chunk header"):
        made.next_event()


def shortest(work: Callable[[bytes], None], line: bytes) -> float:
    times = []
    for _ in range(3):
        start = time.perf_counter()
        work(line)
        times.append(time.perf_counter() - start)
    return min(times)


@pytest.mark.parametrize("work", [of_head, of_request, of_answer, of_trailer, of_chunk])
def test_a_run_of_blanks_takes_no_longer_to_refuse_than_letters(work: Callable[[bytes], None]) -> None:
    assert shortest(work, b"a:" + BLANKS + b"\0") < MOST_TIMES_AS_LONG * shortest(work, b"a:" + LETTERS + b"\0")


@pytest.mark.parametrize(
    ("line", "value"),
    [(b"a:", b""), (b"a: \t ", b""), (b"a:b", b"b"), (b"a:  b \t c  ", b"b \t c"), (b"a: \xe9 ", b"\xe9")],
)
def test_header_values_are_what_they_were(line: bytes, value: bytes) -> None:
    event = asking(line + b"\r\n\r\n").next_event()
    assert isinstance(event, h11.Response)
    assert list(event.headers) == [(b"a", value)]


@pytest.mark.parametrize("header", [b"5", b"05", b"5 \t", b"5;name=value", b"5; name \t", b"5;\r"])
def test_chunk_headers_are_what_they_were(header: bytes) -> None:
    made = asking(b"Transfer-Encoding: chunked\r\n\r\n" + header + b"\r\nhello\r\n0\r\n\r\n")
    made.next_event()
    event = made.next_event()
    assert isinstance(event, h11.Data)
    assert (bytes(event.data), made.next_event()) == (b"hello", h11.EndOfMessage())
