"""The cursors of lists: opaque to callers, and only what a list gave is taken. Pure."""

from __future__ import annotations

import base64
import binascii

from kernel_gateway.errors import InvalidRequest


def cursor_to(place: bytes) -> str:
    """A cursor that stands for a place in a list."""
    return base64.urlsafe_b64encode(place).decode().rstrip("=")


def place_in(cursor: str) -> bytes:
    """What a cursor stands for, never nothing; raises InvalidRequest for what is none, to the letter."""
    try:
        place = base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4))
    except (ValueError, binascii.Error):
        place = b""
    if not place or cursor_to(place) != cursor.rstrip("="):
        raise nonsense()
    return place


def nonsense() -> InvalidRequest:
    """The refusal of a cursor."""
    return InvalidRequest("the cursor is not one that a list gave", field="cursor")
