"""Names of files in what is said of a fork: a sandbox chose them."""

from __future__ import annotations

import os

from kernel_gateway.services.replays.forks import MOST_PATHS, show_paths


def test_names_are_text_on_one_line_and_close_no_quotation() -> None:
    odd = os.fsdecode(b"odd\xff`\n# heading")
    assert show_paths(["plain/a b.csv", odd, "\u00e9\u202e"]) == ["plain/a b.csv", "odd?'?# heading", "\u00e9?"]
    assert len(show_paths(["a"] * (MOST_PATHS + 1))) == MOST_PATHS
