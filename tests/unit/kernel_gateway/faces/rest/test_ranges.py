"""`Range` headers: those that are heeded, those beyond the end, and everything else, which is ignored."""

from __future__ import annotations

import pytest

from kernel_gateway.faces.errors import RangeNotSatisfiable
from kernel_gateway.faces.rest.ranges import parse_range


@pytest.mark.parametrize(
    ("header", "found"),
    [
        (None, (0, 100)),
        ("bytes=0-0", (0, 1)),
        ("bytes=10-19", (10, 20)),
        ("bytes=90-", (90, 100)),
        ("bytes=90-1000", (90, 100)),
        ("bytes=-1", (99, 100)),
        ("bytes=-1000", (0, 100)),
        (" bytes=1-2 ", (1, 3)),
    ],
)
def test_what_is_heeded(header: str | None, found: tuple[int, int]) -> None:
    assert parse_range(header, 100) == found


@pytest.mark.parametrize("header", ["bytes=100-", "bytes=100-200", "bytes=999999999999999999-", "bytes=-0"])
def test_what_begins_beyond_the_end(header: str) -> None:
    with pytest.raises(RangeNotSatisfiable) as caught:
        parse_range(header, 100)
    assert caught.value.size == 100


@pytest.mark.parametrize(
    "header",
    ["", "bytes", "bytes=", "bytes=-", "bytes=5-2", "lines=0-1", "bytes=0-1,3-4", "bytes=a-b", "bytes=0x1-2",
     "bytes=\u0661-", "bytes=--1", "bytes=1-2-3", "bytes=" + "9" * 1_000 + "-", "Bytes=0-1",
     "bytes=0 - 1", "bytes=1-2\r\nX: y"],
)  # fmt: skip
def test_what_is_ignored(header: str) -> None:
    assert parse_range(header, 100) == (0, 100)


def test_of_nothing_there_is_no_range() -> None:
    assert parse_range(None, 0) == (0, 0)
    with pytest.raises(RangeNotSatisfiable):
        parse_range("bytes=0-", 0)
