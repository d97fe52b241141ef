"""What others say, in a log: readable, on one line, and obeyed by nothing."""

from __future__ import annotations

import logging

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernels.log_text import OneLine, escape, escape_lines

OBEYED = {
    "a colour": ("\x1b[31mred", r"\x1b[31mred"),
    "a line of its own": ("x\r\n2026-01-01 [error] forged", r"x\r\n2026-01-01 [error] forged"),
    "one byte that begins a sequence": ("\x9b2J", r"\x9b2J"),
    "a line end of Unicode": ("a\u2028b\x85c", r"a\u2028b\x85c"),
    "reordering": ("a\u202eb\u2066c", r"a\u202eb\u2066c"),
    "no text": ("\udcff", r"\udcff"),
}


@pytest.mark.parametrize("name", OBEYED)
def test_what_would_be_obeyed_is_written_out(name: str) -> None:
    text, written = OBEYED[name]
    assert escape(text) == written


def test_text_of_every_language_stays() -> None:
    assert escape("/żółw/日本/😀 = 'x'") == "/żółw/日本/😀 = 'x'"


@given(st.text(st.characters()))
def test_one_line_that_every_pipe_takes(text: str) -> None:
    assert len(escape(text).encode().splitlines()) <= 1
    assert len(escape(text).splitlines()) <= 1


def test_the_lines_of_a_traceback_stay_and_are_set_in() -> None:
    assert escape_lines("Traceback:\nValueError: a\x1b[2J\n2026 [error] forged") == (
        "  Traceback:\n  ValueError: a\\x1b[2J\n  2026 [error] forged"
    )


def test_records_of_the_standard_library_too() -> None:
    try:
        raise ValueError("\x1b[2J")
    except ValueError as error:
        record = logging.LogRecord("n", 40, "p", 1, "at %s", ("a\nb",), (ValueError, error, error.__traceback__))
    lines = OneLine("sandcell: %(message)s").format(record).split("\n")
    assert (lines[0], lines[1], lines[-1]) == (
        r"sandcell: at a\nb",
        "  Traceback (most recent call last):",
        r"  ValueError: \x1b[2J",
    )
