"""Object keys: decoded exactly once, refused when another reader could read another key, written in one way. Pure.

S3 itself takes a key as it is. Servers that keep objects as files, and proxies in front of S3, tidy paths; what they
could tidy into something else is refused, at every depth of percent-encoding.
"""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import quote, unquote_to_bytes

from kernel_gateway.egress.s3.refusal import Refused

MOST_KEY_BYTES: Final = 1024
_DEEPEST_ENCODING: Final = 4
_BAD_ESCAPE: Final = re.compile(r"%(?![0-9A-Fa-f]{2})")
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\\]")
_PLAIN: Final = re.compile(r"[\x21-\x7e]*")


def decode(raw: str, word: str = "key") -> str:
    """The text that a percent-encoded part of a request stands for; an encoded slash is refused with the rest."""
    if not _PLAIN.fullmatch(raw) or _BAD_ESCAPE.search(raw):
        raise Refused(word, "it is not percent-encoded as a URL is")
    if "%2f" in raw.lower():
        raise Refused(word, "write the slashes of a key as slashes, not as %2F")
    return _decode(raw, word)


def decode_value(raw: str) -> str:
    """The text of a query parameter's name or value, where `+` is a space."""
    if not _PLAIN.fullmatch(raw) or _BAD_ESCAPE.search(raw):
        raise Refused("query", "the query is not percent-encoded as a URL's is")
    return _decode(raw.replace("+", " "), "query")


def check(key: str, word: str = "key") -> str:
    """The key itself, when every reader reads it alike; raises `Refused`."""
    if not key or len(key.encode()) > MOST_KEY_BYTES:
        raise Refused(word, f"a key has 1 to {MOST_KEY_BYTES} bytes")
    layer = key
    for _ in range(_DEEPEST_ENCODING):
        _check_plain(layer, word)
        inner = _decode(layer, word)
        if inner == layer:
            return key
        if inner.count("/") != layer.count("/"):
            raise Refused(word, "a key must not have slashes in encoded form")
        layer = inner
    raise Refused(word, "a key must not be percent-encoded over and over")


def encode(key: str) -> str:
    """The one way a key is written in a URL."""
    return quote(key, safe="/-_.~")


def encode_value(text: str) -> str:
    """The one way a query parameter's name or value is written."""
    return quote(text, safe="-_.~")


def _check_plain(key: str, word: str) -> None:
    if _CONTROL.search(key):
        raise Refused(word, "a key must not have control characters or backslashes")
    names = key.split("/")
    if "" in names[:-1]:
        raise Refused(word, "a key must not begin with a slash or have two in a row")
    if "." in names or ".." in names:
        raise Refused(word, "a key must not have . or .. between slashes")


def _decode(raw: str, word: str) -> str:
    try:
        return unquote_to_bytes(raw).decode()
    except UnicodeDecodeError:
        raise Refused(word, "it is not UTF-8") from None
