"""Texts and values of any origin as the audit log keeps them: bounded, on one line, fit for any database. Pure."""

from __future__ import annotations

import json
from typing import Any

import msgspec

from kernel_gateway.storage.columns import to_json

LONGEST_TEXT = 2_000
MOST_DETAIL_BYTES = 16_384
LARGE = ("requestParameters", "responseElements")
"""What is left out first of a detail that is too large."""


def cut_text(text: str) -> str:
    """Text of any origin as the log keeps it: short, on one line, and such as every database and terminal takes."""
    kept = text if len(text) <= LONGEST_TEXT else f"{text[:LONGEST_TEXT]}... ({len(text):,} characters)"
    if kept.isprintable():
        return kept
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in kept)


def encode_detail(detail: dict[str, Any]) -> bytes:
    """A record's detail as JSON; too much of it is left out, and counted."""
    encoded = _encode(detail)
    if len(encoded) <= MOST_DETAIL_BYTES:
        return encoded
    omitted = {"omitted_bytes": len(encoded)}
    if any(name in detail for name in LARGE):
        smaller = _encode({**detail, **dict.fromkeys(LARGE), **omitted})
        if len(smaller) <= MOST_DETAIL_BYTES:
            return smaller
    return to_json(omitted)


def _encode(detail: dict[str, Any]) -> bytes:
    try:
        return to_json(detail)
    except UnicodeEncodeError:  # lone surrogates, which JSON has no form for
        return json.dumps(msgspec.to_builtins(detail), ensure_ascii=False).encode("utf-8", "replace")
