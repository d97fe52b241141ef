"""Ranges of bytes as a user of `sandcell workspace cat` types them."""

from __future__ import annotations

import click
import pytest

from sandcell.cli.workspaces.durable_files import parse_range


@pytest.mark.parametrize(
    ("typed", "wanted"),
    [(None, (None, None)), ("0-99", (0, 100)), ("5-5", (5, 6)), ("100-", (100, None)), ("-100", (None, 100))],
)
def test_a_range(typed: str | None, wanted: tuple[int | None, int | None]) -> None:
    assert parse_range(typed) == wanted


@pytest.mark.parametrize("typed", ["", "-", "x", "1", "1-2-3", "1 - 2", "\u0661-2", "1" * 19 + "-"])
def test_what_is_no_range(typed: str) -> None:
    with pytest.raises(click.BadParameter):
        parse_range(typed)
