"""Escape sequences become spans, and nothing else becomes markup, however odd and however many."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel_gateway.views.sanitising import clean_page
from kernel_gateway.views.terminal_colours import colour_text


@pytest.mark.parametrize(
    ("text", "html"),
    [
        ("a<b>&", "a&lt;b&gt;&amp;"),
        ("\x1b[31mred\x1b[0m plain", '<span class="ansi-red-fg">red</span> plain'),
        ("\x1b[1;91;44mx", '<span class="ansi-red-intense-fg ansi-blue-bg ansi-bold">x</span>'),
        ("\x1b[38;5;40mx\x1b[39my", '<span style="color: rgb(0, 215, 0)">x</span>y'),
        ("\x1b[38:5:244mx", '<span style="color: rgb(128, 128, 128)">x</span>'),
        ("\x1b[48;2;1;2;3mx", '<span style="background-color: rgb(1, 2, 3)">x</span>'),
        ("\x1b[7mx", '<span class="ansi-inverse-fg ansi-inverse-bg">x</span>'),
        ("\x1b[38;2;999;0;0mx", "x"),
        ("\x1b[38mx", "x"),
        ("\x1b[2J\x1b[1;1Hx\x1b[K", "x"),
        ("\x1b]0;title\x07x\x1b]8;;http://a/\x1b\\y", "xy"),
        ("\x1b]0;never ends", ""),
        ("\x1b[31", "[31"),
        ("10%\r 50%\r100%\r\ndone", "100%\ndone"),
        ("a\x00\x08b\x9b31m", "ab31m"),
        ("\x1b[31m<script>\x1b[0m", '<span class="ansi-red-fg">&lt;script&gt;</span>'),
    ],
)
def test_text_looks_as_in_a_terminal(text: str, html: str) -> None:
    assert colour_text(text) == html


@given(st.text(st.sampled_from("\x1b[]0123456789;:m<>&\"'\r\n aK\x07\\")))
def test_nothing_but_spans_is_made(text: str) -> None:
    made = colour_text(text)
    assert not re.search(r"<(?!span [a-z]+=\"[^\"<>]*\">|span [a-z]+=\"[^\"<>]*\" style=\"[^\"<>]*\">|/span>)", made)
    assert "\x1b" not in made
    assert clean_page(made).count("<span") == made.count("<span")


def test_a_flood_of_colours_takes_linear_time() -> None:
    assert colour_text("\x1b[31mx\x1b[32my" * 200_000).count("<span") == 400_000
    assert colour_text("\x1b[" * 500_000 + "\x1b]" * 500_000 + "\r" * 500_000).count("<span") == 0
