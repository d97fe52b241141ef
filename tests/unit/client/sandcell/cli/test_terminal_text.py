"""What a sandbox prints cannot steer the terminal it is shown on."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandcell.cli.terminal_text import harmless, plain


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
    assert harmless(text) == shown


def test_a_name_stays_on_its_line() -> None:
    assert plain("a\nb\x1b[31mc") == "a bc"


@given(st.text(alphabet=st.sampled_from("\x1b[]m0;31HJ\x07\\a\x9b\x9d\x90\n")))
def test_no_mixture_lets_a_control_through(text: str) -> None:
    shown = harmless(text)
    for part in shown.split("\x1b")[1:]:
        assert part.startswith("[")
        assert part[1:].lstrip("0123456789;:").startswith("m")
    assert not set(shown) & {"\x07", "\x9b", "\x9d", "\x90", "\x08"}
