"""The head of a request, read so strictly that no two programs could read it differently. Pure.

h11 parses what passes here; it forgives what a proxy must not: bare line feeds, folded lines, a length next to a
transfer coding. What a proxy says for itself and what it passes on is separated here, too.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

Header = tuple[bytes, bytes]

_END = b"\r\n\r\n"
_REQUEST_LINE = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,32} [!-~]+ HTTP/1\.[01]")
_FIELD = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+):([^\x00-\x08\x0a-\x1f\x7f]*)")
_BARE_LINE_FEED = re.compile(rb"(?:^|[^\r])\n")
_MOST_FIELDS = 100
_ONCE = (b"host", b"content-length", b"transfer-encoding", b"expect")
_HOP_BY_HOP = frozenset(
    (b"connection", b"keep-alive", b"te", b"trailer", b"transfer-encoding", b"upgrade", b"http2-settings", b"expect")
)


class BadHead(Exception):
    """A head that is refused. `word` is stable."""

    def __init__(self, word: str, sentence: str) -> None:
        super().__init__(sentence)
        self.word = word


def end_of(data: bytes | bytearray, looked_at: int = 0) -> int:
    """Where the head ends in what has come so far; 0 when it has not. `looked_at` bytes of it had no end.

    Raises `BadHead` at a bare line feed.
    """
    found = data.find(_END, max(0, looked_at - len(_END) + 1))
    end = 0 if found < 0 else found + len(_END)
    if _BARE_LINE_FEED.search(data, max(0, looked_at - 1), end or len(data)):
        raise BadHead("bare_line_feed", "lines end with a carriage return and a line feed")
    return end


def check(head: bytes) -> None:
    """Raise `BadHead` unless it is a plain HTTP/1 request head, up to and including its empty line."""
    lines = head.removesuffix(_END).split(b"\r\n")
    if not _REQUEST_LINE.fullmatch(lines[0]):
        raise BadHead("bad_request_line", "the request line is no HTTP/1 request line")
    if len(lines) - 1 > _MOST_FIELDS:
        raise BadHead("too_many_fields", f"more than {_MOST_FIELDS} header fields")
    fields: dict[bytes, list[bytes]] = {}
    for line in lines[1:]:
        found = _FIELD.fullmatch(line)
        if not found:
            raise BadHead("bad_field", "a header field is folded, has control characters or no name")
        fields.setdefault(found[1].lower(), []).append(found[2].strip(b" \t"))
    _check_framing(fields, old=lines[0].endswith(b"1.0"))


def _check_framing(fields: dict[bytes, list[bytes]], *, old: bool) -> None:
    repeated = [name.decode() for name in _ONCE if len(fields.get(name, ())) > 1]
    if repeated:
        raise BadHead("repeated_field", f"{', '.join(repeated)} may be there once")
    length, coding = fields.get(b"content-length"), fields.get(b"transfer-encoding")
    if length and coding:
        raise BadHead("two_lengths", "a request has a Content-Length or a Transfer-Encoding, not both")
    if length and not re.fullmatch(rb"[0-9]{1,18}", length[0]):
        raise BadHead("bad_length", "Content-Length is no number")
    if coding and (old or coding[0].lower() != b"chunked"):
        raise BadHead("bad_coding", "of transfer codings only chunked is taken, and not in HTTP/1.0")
    if not old and b"host" not in fields:
        raise BadHead("no_host", "a request of HTTP/1.1 has a Host")


def select_forwarded(headers: Iterable[Header]) -> list[Header]:
    """The fields that a proxy passes on: none that concern one connection or are meant for proxies, no framing."""
    all_of_them = list(headers)
    named = {
        name.strip().lower() for key, value in all_of_them if key.lower() == b"connection" for name in value.split(b",")
    }
    dropped = _HOP_BY_HOP | named | {b"host", b"content-length"}
    return [
        (key, value)
        for key, value in all_of_them
        if key.lower() not in dropped and not key.lower().startswith(b"proxy-")
    ]


def select_framing(headers: Iterable[Header]) -> list[Header]:
    """The fields that say how long the body is, as they are to be said to the other side."""
    said = {key.lower(): value for key, value in headers}
    if b"transfer-encoding" in said:
        return [(b"Transfer-Encoding", b"chunked")]
    length = said.get(b"content-length")
    return [] if length is None else [(b"Content-Length", length)]
