"""The line that says how far a transfer is."""

from __future__ import annotations

import pytest

from sandcell.cli.progress import describe_transfer, following_bytes


def test_the_line_has_a_bar_amounts_rate_and_time_left() -> None:
    line = describe_transfer("data.csv", 25_000_000, 100_000_000, 5.0)
    assert line == "data.csv  [######..................]  25.0 of 100.0 MB  5.0 MB/s  15 s left"
    assert describe_transfer("x", 10, 10, 1.0).endswith("[########################]  0.0 of 0.0 MB  0.0 MB/s")


def test_what_has_no_size_has_no_bar() -> None:
    assert describe_transfer("all.zip", 3_000_000, None, 2.0) == "all.zip  3.0 MB  1.5 MB/s"
    assert describe_transfer("empty", 0, 0, 0.0) == "empty  0.0 MB  0.0 MB/s"


def test_where_no_terminal_shows_it_nothing_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    with following_bytes("data.csv") as note:
        assert note is None
    assert capsys.readouterr().err == ""
