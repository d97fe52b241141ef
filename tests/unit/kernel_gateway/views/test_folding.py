"""A long output keeps all of its lines, most of them folded."""

from __future__ import annotations

import re
from html import unescape

import pytest

from kernel_gateway.views.folding import FOLDED_FROM_LINES, SHOWN_LINES, fold
from kernel_gateway.views.terminal_colours import colour_text

LINES = [f"line {number} <" for number in range(FOLDED_FROM_LINES + 60)]


def text(html: str) -> str:
    return unescape(re.sub(r"<[^>]*>", "", re.sub(r"<summary>.*?</summary>|<pre>", "\n", html))).strip()


def test_a_short_output_is_whole() -> None:
    lines = "\n".join(LINES[: FOLDED_FROM_LINES - 1])
    assert fold(lines) == f"<pre>{lines}</pre>"
    assert fold("") == "<pre></pre>"


@pytest.mark.parametrize("keep_end", [False, True])
def test_a_long_one_folds_all_but_some_lines(keep_end: bool) -> None:
    folded = fold(colour_text("\n".join(LINES) + "\n"), keep_end=keep_end)
    assert folded.startswith("<details" if keep_end else "<pre>")
    hidden = len(LINES) - SHOWN_LINES
    assert f"<summary>{hidden} {'earlier' if keep_end else 'more'} lines</summary>" in folded
    assert [line for line in text(folded).split("\n") if line] == LINES


def test_a_colour_goes_on_behind_the_fold() -> None:
    folded = fold(colour_text("\x1b[31m" + "\n".join(LINES) + "\x1b[0m\nend"))
    for block in re.findall(r"<pre>(.*?)</pre>", folded, re.DOTALL):
        assert block.startswith('<span class="ansi-red-fg">')
        assert block.count("<span") == block.count("</span>")
