"""How values become columns and pages: microseconds, JSON bytes, and the cursor of a list."""

from __future__ import annotations

from typing import Any

import msgspec
from sqlalchemy import Connection, Row, Select, Table

from kernel_gateway.cursors import cursor_to, nonsense, place_in
from kernel_gateway.errors import InvalidRequest

MOST_ROWS = 1_000
"""The most rows one page of a list may have."""
MOST_NUMBER = 1 << 63
"""What a row's number is below, in every database."""

LONGEST_NUMBER = 19


def micros(seconds: float) -> int:
    """An epoch time as the tables hold it."""
    return round(seconds * 1_000_000)


def micros_or_none(seconds: float | None) -> int | None:
    return None if seconds is None else micros(seconds)


def seconds(value: int) -> float:
    """An epoch time as code holds it."""
    return value / 1_000_000


def seconds_or_none(value: int | None) -> float | None:
    return None if value is None else seconds(value)


def to_json(value: Any) -> bytes:
    return msgspec.json.encode(value)


def page(
    connection: Connection, select: Select[Any], table: Table, limit: int, cursor: str | None, *, newest_first: bool
) -> tuple[list[Row[Any]], str | None]:
    """One page of a table in its order, and the cursor of the next; raises InvalidRequest."""
    if not 1 <= limit <= MOST_ROWS:
        raise InvalidRequest(f"limit must be between 1 and {MOST_ROWS:,}")
    number = table.c.number
    if cursor is not None:
        place = place_of(cursor)
        select = select.where(number < place if newest_first else number > place)
    select = select.order_by(number.desc() if newest_first else number).limit(limit + 1)
    rows = list(connection.execute(select))
    more = len(rows) > limit
    return rows[:limit], cursor_of(rows[limit - 1].number) if more else None


def cursor_of(number: int) -> str:
    """A cursor for what comes after the row of this number."""
    return cursor_to(str(number).encode())


def cursor_of_name(name: str) -> str:
    """A cursor for what comes after this name, in a list by names."""
    return cursor_to(name.encode())


def name_of(cursor: str) -> str:
    """The name that a cursor stands for; raises InvalidRequest."""
    try:
        return place_in(cursor).decode()
    except UnicodeDecodeError:
        raise nonsense() from None


def place_of(cursor: str) -> int:
    """The number that a cursor stands for; raises InvalidRequest."""
    place = place_in(cursor)
    if len(place) > LONGEST_NUMBER or not place.isdigit() or int(place) >= MOST_NUMBER:
        raise nonsense()
    return int(place)
