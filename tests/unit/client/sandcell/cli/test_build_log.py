"""Following the log of a build: each line is printed once, whatever goes at its beginning."""

from __future__ import annotations

import pytest

from sandcell.cli.administration.environments import count_shown


@pytest.mark.parametrize(
    ("shown", "lines", "count"),
    [
        ([], ["a", "b"], 0),
        (["a"], ["a", "b"], 1),
        (["a", "b", "c", "d"], ["a", "b", "c", "d", "e"], 4),
        (["a", "b", "c", "d"], ["c", "d", "e"], 0),
        (["a", "b", "c", "d"], ["b", "c", "d", "e"], 3),
        (["a", "b", "c", "d"], ["a", "[... 9 bytes cut ...]", "b", "c", "d", "e"], 5),
        (["a"], [], 0),
        (["same", "same"], ["same", "same", "same"], 3),
    ],
)
def test_what_was_shown_is_not_shown_again(shown: list[str], lines: list[str], count: int) -> None:
    assert count_shown(shown, lines) == count
