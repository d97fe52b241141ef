"""Tracebacks to HTML with colours: kernels send them as plain text. Pure, in linear time."""

# mypy: allow-untyped-calls

from __future__ import annotations

import re
from html import escape
from typing import Final

from pygments import highlight
from pygments.formatters.html import HtmlFormatter
from pygments.lexers.python import PythonLexer

from kernel_gateway.views.terminal_colours import colour_text

MOST_COLOURED_BYTES: Final = 50_000
"""A longer traceback is shown in one colour."""

_CONTROL: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_RULE: Final = re.compile(r"-{20,}")
_FIRST: Final = re.compile(
    r"(\w[\w.]*)(\s+Traceback \(most recent call last\))|(Traceback \(most recent call last\):)()"
)
_PLACE: Final = re.compile(r"(\s*)((?:Cell In ?\[\d+\]|File )[^\n]*?)(, in [^\n]*)?")
_CODE: Final = re.compile(r"(-+> ?\d+|\s*\d+)( [^\n]*)?")
_JAVASCRIPT_PLACE: Final = re.compile(r"\s+at [^\n]+")
_NAMED: Final = re.compile(r"([A-Za-z_][\w.]*)(:[^\n]*)?")


def colour_traceback(text: str) -> str:
    """HTML of a traceback; one that brings its own colours keeps them."""
    if _CONTROL.search(text) or len(text) > MOST_COLOURED_BYTES:
        return colour_text(text)
    return "\n".join(_colour_line(line) for line in text.split("\n"))


def _colour_line(line: str) -> str:
    if _RULE.fullmatch(line) or _JAVASCRIPT_PLACE.fullmatch(line):
        return _wrap("quiet", line)
    if first := _FIRST.fullmatch(line):
        return _wrap("raised", first[1] or "") + _wrap("quiet", first[2] or first[3])
    if place := _PLACE.fullmatch(line):
        return escape(place[1]) + _wrap("place", place[2]) + escape(place[3] or "")
    if code := _CODE.fullmatch(line):
        return _wrap("arrow" if ">" in code[1] else "quiet", code[1]) + _colour_python(code[2] or "")
    if named := _NAMED.fullmatch(line):
        return _wrap("raised", named[1]) + escape(named[2] or "")
    return colour_text(line)


def _colour_python(code: str) -> str:
    lexer = PythonLexer(stripnl=False, ensurenl=False)
    return str(highlight(code, lexer, HtmlFormatter(nowrap=True))).removesuffix("\n") if code else ""


def _wrap(kind: str, text: str) -> str:
    return f'<span class="sandcell-{kind}">{escape(text)}</span>' if text else ""
