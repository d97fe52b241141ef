"""A path as every server reads it, or none: what an endpoint that is declared for some paths is compared with. Pure.

Servers differ in what they undo (escapes, also twice, parameters after a semicolon, blanks, other scripts' dots and
slashes) and in what they then make of dots. A path that reads differently under any of that has no plain form.
"""

from __future__ import annotations

import re
import unicodedata
from urllib.parse import unquote_to_bytes

_VISIBLE = re.compile(r"[!-~]+")
_BAD_ESCAPE = re.compile(r"%(?![0-9a-fA-F]{2})")
_NEVER_DECODED = re.compile(r"%(?:2f|5c|25)", re.IGNORECASE)
_SYNTAX = frozenset("./\\;%")
_LOOKALIKES = frozenset("\u2044\u2215\u2216\u29f5\u29f8\u29f9\u3002")
"""Slashes, backslashes and a full stop that no normal form, but some servers' code pages turn into ours."""
_INVISIBLE = ("C", "Z")
"""Unicode's classes of control, format, private and unassigned characters, and of separators."""


def unescape(path: str) -> str | None:
    """The path with every escape undone; None when servers could take it for another one."""
    if not _VISIBLE.fullmatch(path) or "\\" in path or _BAD_ESCAPE.search(path) or _NEVER_DECODED.search(path):
        return None
    try:
        decoded = unquote_to_bytes(path).decode()  # overlong forms of a dot are no UTF-8
    except UnicodeDecodeError:
        return None
    if any(map(_is_unclear, set(decoded))):
        return None
    first, *segments = decoded.split("/")
    if first or any(map(_is_step, segments[:-1])) or (segments[-1:] != [""] and _is_step(segments[-1])):
        return None
    return decoded


def _is_unclear(character: str) -> bool:
    """Whether it cannot be seen, or may be turned into syntax; a blank is a blank."""
    if character.isascii():
        return not (character == " " or character.isprintable())
    if character in _LOOKALIKES or unicodedata.category(character)[0] in _INVISIBLE:
        return True
    return not _SYNTAX.isdisjoint(unicodedata.normalize("NFKC", character))


def _is_step(segment: str) -> bool:
    """Whether servers may drop this segment, or take it for a step: nothing but dots and blanks before a parameter."""
    return not segment.partition(";")[0].strip(". ")
