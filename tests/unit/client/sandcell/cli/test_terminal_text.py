"""What a sandbox prints cannot steer the terminal it is shown on."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandcell.cli.terminal_text import ScreenFilter, clean_line, clean_text, colour_traceback


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


SCREENS = [
    (b"plain \x1b[1;31mred\x1b[0m \x1b[2J\x1b[3;4Hthere", b"plain \x1b[1;31mred\x1b[0m \x1b[2J\x1b[3;4Hthere"),
    (b"a\x1b]52;c;aGk=\x07b", b"ab"),
    (b"a\x1b]0;title\x1b\\b", b"ab"),
    (b"a\x1b]8;;javascript:alert(1)\x1b\\link\x1b]8;;\x1b\\b", b"alinkb"),
    (b"a\x1bP$qm\x1b\\b\x1b_x\x1b\\c\x1b^y\x1b\\d\x1bXz\x1b\\e", b"abcde"),
    (b"a\xc2\x9d52;c;aGk=\xc2\x9cb", b"ab"),
    (b"a\x1b[21tb\x1b[8;1;1tc", b"abc"),
    (b"a\x1b]52;c;never ended", b"a"),
    (b"a\x1b]0;cut\x18b", b"ab"),
    (b"a\x1b]0;cut\x1b[1mb", b"a\x1b[1mb"),
    ("grün 漢字 é\u0301".encode(), "grün 漢字 é\u0301".encode()),
    (b"\xff\xfe \xc2", b"\xff\xfe "),
    (b"\x1b7\x1b8\x1b(B\x1b=", b"\x1b7\x1b8\x1b(B\x1b="),
]


@pytest.mark.parametrize(("shown", "left"), SCREENS)
def test_a_screen_is_filtered_however_it_is_cut(shown: bytes, left: bytes) -> None:
    for size in (1, 2, 3, len(shown)):
        screen = ScreenFilter()
        assert b"".join(screen.feed(shown[at : at + size]) for at in range(0, len(shown), size)) == left


def test_modes_that_are_left_are_undone() -> None:
    screen = ScreenFilter()
    screen.feed(b"\x1b[?1049h\x1b[?25l\x1b[?2004h\x1b[?1000;1006h\x1b[?2004l")
    assert screen.close() == b"\x1b[?1000l\x1b[?1006l\x1b[?1049l\x1b[?25h\x1b[0m"
    assert ScreenFilter().close() == b"\x1b[0m"
