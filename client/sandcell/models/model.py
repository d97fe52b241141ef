"""The root of the values that services return and faces send, and what they have in common. Pure.

Fields may be added, never renamed. Ids are UUIDs with dashes. Times are RFC 3339 strings in UTC with six fractional
digits and `Z` (see `timestamp`). Sizes are bytes, durations seconds.
"""

from __future__ import annotations

from datetime import datetime
from typing import Generic, TypeVar

import msgspec

T = TypeVar("T")


def timestamp(moment: datetime) -> str:
    """RFC 3339 with six fractional digits, also when the microsecond is zero; `moment` is in UTC."""
    return moment.replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"


class Model(msgspec.Struct):
    """Root of every value."""


class Page(Model, Generic[T]):
    """One page of a list; `next_cursor` is null on the last one."""

    items: list[T]
    next_cursor: str | None = None
