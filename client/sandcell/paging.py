"""A list of any length, which the service gives out in pages."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from sandcell.models.model import Page
from sandcell.steps import Operation

T = TypeVar("T")


def collect_pages(page: Callable[[str | None], Operation[Page[T]]], most: int | None = None) -> Operation[list[T]]:
    """The items of every page, `most` at most; `page` asks for the one at a cursor, for the first at None."""
    found: list[T] = []
    cursor: str | None = None
    while most is None or len(found) < most:
        answer = yield from page(cursor)
        found += answer.items
        cursor = answer.next_cursor
        if cursor is None:
            break
    return found[:most]
