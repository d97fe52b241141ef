"""What a sandbox prints cannot steer the terminal it is shown on."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandcell.cli.terminal_text import clean_line, clean_text, colour_traceback


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\tb\r\n", "a\tb\r\n"),
        ("\x1b[1;31mred\x1b[0m", "\x1b[1;31mred\x1b[0m"),
        ("\x1b]0;title\x07x", "x"),
        ("\x1b]52;c;c2VjcmV0\x1b\\x", "x"),
        ("\x1bP1$r\x1b\\x", "x"),
        ("\x1b[2J\x1b[H\x1b[6nx", "x"),
        ("\x1bcx", "x"),
        ("\x9b31mx", "31mx"),
        ("a\x08b\x07c\x00d\x7fe", "abcde"),
        ("\u202egnp.exe", "gnp.exe"),
        ("\ud800", "?"),
        ("\x1b", ""),
        ("\x1b]never ends", ""),
    ],
)
def test_only_colours_pass(text: str, shown: str) -> None:
    assert clean_text(text) == shown


def test_a_name_stays_on_its_line() -> None:
    assert clean_line("a\nb\x1b[31mc") == "a bc"


@given(st.text(alphabet=st.sampled_from("\x1b[]m0;31HJ\x07\\a\x9b\x9d\x90\n")))
def test_no_mixture_lets_a_control_through(text: str) -> None:
    shown = clean_text(text)
    for part in shown.split("\x1b")[1:]:
        assert part.startswith("[")
        assert part[1:].lstrip("0123456789;:").startswith("m")
    assert not set(shown) & {"\x07", "\x9b", "\x9d", "\x90", "\x08"}


TRACEBACK = """\
---------------------------------------------------------------------------
KeyError                                  Traceback (most recent call last)
Cell In[2], line 3
      1 def f(d):
----> 3     return d["a"]

KeyError: 'a'"""


def test_a_traceback_in_colours_says_the_same() -> None:
    shown = colour_traceback(TRACEBACK)
    assert clean_line(shown) == clean_line(TRACEBACK)
    lines = shown.split("\n")
    assert lines[-1] == "\x1b[1;31mKeyError: 'a'\x1b[0m"
    assert lines[4] == '\x1b[32m----> 3     return d["a"]\x1b[0m'
    assert lines[3] == "      1 def f(d):"


def test_colours_of_a_traceback_hide_nothing_hostile() -> None:
    assert colour_traceback("\x1b]0;title\x07ValueError: \x1b[2Jgone") == "\x1b[1;31mValueError: gone\x1b[0m"
