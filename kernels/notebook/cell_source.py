"""A cell as IPython takes it, split into lines of Python and what only IPython understands. Pure, linear.

The rules are those of IPython's `TransformerManager`, against which the tests hold this. It is not used itself: it
reads a cell again for each command in it, gives up after five hundred, and would have the service install IPython. Left
out are prompts that were pasted along, and help and assignments in statements that began in an earlier line.

Words: a *command* is a magic, a shell line, a request for help or a call without parentheses; its *escape* is the mark
that begins it, or that ends it in `name?`.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator
from typing import Final

import msgspec

_LINES: Final = re.compile(r"\r\n|\r|\n")
_ESCAPES: Final = ("!!", "??", "!", "?", "%", ",", ";", "/")
_NOT_ESCAPES: Final = ("!=", "%=", "/=", "//")
_HELP: Final = re.compile(r"(%{0,2}(?!\d)[\w*]+(?:\.(?!\d)[\w*]+|\[-?[0-9]+\])*)(\?\??)\Z")
_LONGEST_HELP: Final = 200
"""How far before its mark the name is looked for that help is wanted of."""
_CELL_HELP: Final = re.compile(r"%%\w+\?")
_TOKEN: Final = re.compile(
    r"""'''|\"\"\"|'(?:\\.|[^'\\])*+'?|"(?:\\.|[^"\\])*+"?|\#.*|[(\[{]|[)\]}]|(?<![=!<>:+\-*/%&|^@])=(?!=)"""
)
_ASSIGNED: Final = re.compile(r"[ \t]*(?:(?=!)|(?=%[ \t]*[^\W\d]))")


class Command(msgspec.Struct, frozen=True):
    """One command. `before` is what stands before it: indentation, or an assignment up to its `=`.

    `text` is what follows the escape, its continued lines joined; of help, what help is wanted of. `lines` is how many
    lines of the source it takes.
    """

    before: str
    escape: str
    text: str
    lines: int = 1

    @property
    def assigned(self) -> bool:
        """Whether its answer gets a name."""
        return bool(self.before.strip())


class CellMagic(msgspec.Struct, frozen=True):
    """A cell that as a whole is given to a magic."""

    name: str
    arguments: str
    body: str


def split_lines(text: str) -> list[str]:
    """The lines as Python's tokenizer tells them apart."""
    return _LINES.split(text)


def cell_magic(source: str) -> CellMagic | None:
    """The magic that takes the whole cell, if there is one."""
    lines = _clean(source)
    if not lines or not lines[0].startswith("%%") or _CELL_HELP.match(lines[0]):
        return None
    name, _, arguments = lines[0][2:].rstrip().partition(" ")
    return CellMagic(name, arguments, "\n".join(lines[1:]))


def read_cell(source: str) -> Iterator[str | Command]:
    """The cell's lines of Python as they are, without indentation that all share, and its commands."""
    lines, state, at = _clean(source), _State(), 0
    while at < len(lines):
        found = _command(lines, at) if state.begins_statement else None
        if found is None:
            state.follow(lines[at])
        yield lines[at] if found is None else found
        at += 1 if found is None else found.lines


def _clean(source: str) -> list[str]:
    lines = split_lines(source)
    begin = next((number for number, line in enumerate(lines) if line.strip()), len(lines))
    return textwrap.dedent("\n".join(lines[begin:])).split("\n") if begin < len(lines) else []


def _command(lines: list[str], at: int) -> Command | None:
    """The command in a line that begins a statement, if there is one."""
    line = lines[at]
    text = line.lstrip(" \t\f")
    indent = line[: len(line) - len(text)]
    if text.endswith("?") and _ends_in_code(line) and (wanted := _HELP.search(line[-_LONGEST_HELP:])):
        return Command(indent, wanted[2], wanted[1])
    escape = next((each for each in _ESCAPES if text.startswith(each)), "")
    if escape and not text.startswith(_NOT_ESCAPES) and (escape != "/" or text[1:2].strip()):
        return _join_lines(lines, at, indent, escape)
    start = _find_assigned_command(line) if "=" in line else -1
    return _join_lines(lines, at, line[:start], line[start]) if start > 0 else None


def _join_lines(lines: list[str], at: int, before: str, escape: str) -> Command:
    """The command with the lines that it goes on in after a backslash."""
    parts = [lines[at][len(before) + len(escape) :]]
    end = len(lines) - (not lines[-1])  # behind the newline that ends the cell there is no line
    while parts[-1].endswith("\\") and at + len(parts) < end:
        parts[-1] = parts[-1][:-1]
        parts.append(lines[at + len(parts)])
    parts[-1] = parts[-1].rstrip()
    return Command(before, escape, " ".join(parts), len(parts))


def _find_assigned_command(line: str) -> int:
    """Where a command begins to whose answer this line gives a name, or -1."""
    depth = 0
    for word, start, end in _marks(line):
        if word in "([{":
            depth += 1
        elif word in ")]}":
            depth = max(0, depth - 1)
        elif word == "=" and not depth:
            follows = _ASSIGNED.match(line, end)
            return follows.end() if follows and line[:start].strip() else -1
    return -1


def _ends_in_code(line: str) -> bool:
    """Whether its last character is in no string and no comment."""
    return not any(word[0] in "'\"#" and end in (len(line), -1) for word, _, end in _marks(line))


class _State:
    """Where in Python the end of a line is: in a long string, in brackets, in a statement that goes on."""

    def __init__(self) -> None:
        self._depth = 0
        self._quote = ""
        self._continued = False

    @property
    def begins_statement(self) -> bool:
        """Whether a statement may begin in the next line."""
        return not (self._depth or self._quote or self._continued)

    def follow(self, line: str) -> None:
        """Take a line of Python in."""
        quote, self._quote, self._continued = self._quote, "", line.endswith("\\")
        for word, _, end in _marks(line, quote):
            if word in "([{":
                self._depth += 1
            elif word in ")]}":
                self._depth = max(0, self._depth - 1)
            elif word[0] == "#":
                self._continued = False
            elif end < 0:
                self._quote, self._continued = word, False


def _marks(line: str, quote: str = "") -> Iterator[tuple[str, int, int]]:
    """What strings, brackets and comments a line has, and each `=` of an assignment: its text, its start, its end.

    `quote`: the long string that is open where the line begins. Of a long string the text is its quote; its end is -1
    when it is open where the line ends.
    """
    at = 0
    if quote:
        at = _end_of_string(line, 0, quote)
        yield quote, 0, at
    while at >= 0 and (token := _TOKEN.search(line, at)):
        at = token.end()
        if token[0] in ("'''", '"""'):
            at = _end_of_string(line, at, token[0])
        yield token[0], token.start(), at


def _end_of_string(line: str, at: int, quote: str) -> int:
    """Where a long string that is open at a place ends in this line, or -1."""
    while (end := line.find(quote, at)) >= 0:
        before = line[at:end]
        if (len(before) - len(before.rstrip("\\"))) % 2 == 0:
            return end + len(quote)
        at = end + 1
    return -1
