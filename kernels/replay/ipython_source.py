"""A cell as IPython takes it to Python that `ast` reads: magics, shell lines and help lines put aside. Pure, linear.

Only what bears on names is kept. What a magic may define counts as defined, and of a cell that nothing here understands
every word does: better to accuse no name than a wrong one.
"""

from __future__ import annotations

import ast
import re
import textwrap
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

_FILE: Final = "<recorded cell>"
_LONGEST_SOURCE: Final = 200_000
_LONGEST_TARGETS: Final = 500
"""How far into a line the names are looked for to which a magic's answer is assigned."""
_WORD: Final = re.compile(r"[^\W\d]\w{0,200}")
_CELL_MAGIC: Final = re.compile(r"\s*%%([\w!.]+)[ \t]*([^\n]*)\n?")
_ASSIGNED: Final = re.compile(r"(\s*)([\w.,\[\]'\" \t*()]+?)\s*=\s*([%!])([^=].*)")
_OPTIONS: Final = re.compile(r"\A(?:-[a-zA-Z]\s?\d*\s+)*")
_AUTOMAGIC: Final = re.compile(
    r"(?:pip|conda|mamba|uv|ls|ll|cd|cat|pwd|cp|mv|rm|mkdir|rmdir|man|clear|who|whos)(?![\w])(?!\s*[=(.,\[:+*/)\]])"
)
_TOKEN: Final = re.compile(r"""'''|\"\"\"|'(?:\\.|[^'\\])*+'?|"(?:\\.|[^"\\])*+"?|#.*|[(\[{]|[)\]}]""")
_PYTHON_BODIES: Final = frozenset({"time", "timeit", "prun", "capture", "memit", "lprun", "mprun", "pyinstrument"})
_OTHER_BODIES: Final = frozenset(
    [
        *(
            "bash",
            "sh",
            "script",
            "system",
            "sx",
            "!",
            "cmd",
            "powershell",
            "perl",
            "ruby",
            "pypy",
            "python",
            "python2",
        ),
        *("python3", "writefile", "file", "html", "HTML", "javascript", "js", "latex", "markdown", "svg", "SVG"),
    ]
)
_DEFINES_ANYTHING: Final = frozenset(
    {"run", "pylab", "load", "loadpy", "store", "macro", "edit", "ed", "recall", "rep", "rerun", "execfile", "sql"}
)


@dataclass(frozen=True)
class CellSource:
    """`tree`: None when there is no Python to read. `words`: names that may be defined beside it.

    `anything`: something in it may define any name. `resets`: it forgets every name.
    """

    tree: ast.Module | None
    words: frozenset[str] = frozenset()
    anything: bool = False
    resets: bool = False


def read(source: str) -> CellSource:
    """The cell, as far as it can be understood; never raises."""
    if len(source) > _LONGEST_SOURCE:
        return CellSource(None, anything=True)
    if (tree := parsed(source)) is not None:
        return CellSource(tree)
    magic = _CELL_MAGIC.match(source)
    if magic is None:
        return _by_lines(source)
    name, arguments, body = magic[1], magic[2], source[magic.end() :]
    if name not in _PYTHON_BODIES:
        seen = arguments if name in _OTHER_BODIES else source
        return CellSource(None, _words(seen), anything=name in _DEFINES_ANYTHING)
    inner = CellSource(parsed(body)) if parsed(body) is not None else _by_lines(body)
    return CellSource(inner.tree, inner.words | _words(arguments), inner.anything, inner.resets)


def parsed(source: str) -> ast.Module | None:
    """The syntax tree, or None for what Python does not parse."""
    warnings.filterwarnings("ignore", module=re.escape(_FILE))  # a bad escape in a recorded string is nobody's concern
    try:
        return ast.parse(textwrap.dedent(source) if source[:1].isspace() else source, _FILE)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _by_lines(source: str) -> CellSource:
    lines = _Lines(textwrap.dedent(source.replace("\r\n", "\n")))
    text = "\n".join(lines.translated())
    tree = parsed(text)
    words = frozenset(lines.words) if tree is not None else _words(source)
    return CellSource(tree, words, lines.anything, lines.resets)


class _Lines:
    """Goes over a cell line by line, knowing whether it is inside a string or brackets."""

    def __init__(self, source: str) -> None:
        self.words: set[str] = set()
        self.anything = False
        self.resets = False
        self._lines = source.split("\n")
        self._depth = 0
        self._quote = ""
        self._continued = False

    def translated(self) -> Iterator[str]:
        special = False  # a magic goes on in the next line
        for line in self._lines:
            if special:
                special = line.endswith("\\")
                yield ""
                continue
            if self._depth <= 0 and not self._quote and not self._continued:
                replaced = self._replaced(line)
                if replaced is not None:
                    special = line.endswith("\\")
                    yield replaced
                    continue
            self._scan(line)
            yield line

    def _replaced(self, line: str) -> str | None:
        """Python in place of a line that only IPython understands; None for any other."""
        text = line.strip()
        indent = line[: len(line) - len(line.lstrip())]
        if "=" in line[:_LONGEST_TARGETS] and (assigned := _ASSIGNED.fullmatch(line[:_LONGEST_TARGETS])):
            return f"{assigned[1]}{assigned[2]} = None"
        if text.startswith("%"):
            return indent + self._magic(text.lstrip("%"))
        if text.startswith(("!", "?")) or (text.endswith("?") and "#" not in text) or _AUTOMAGIC.match(text):
            return indent + "pass"
        return None

    def _magic(self, text: str) -> str:
        name, _, arguments = text.partition(" ")
        if name in _PYTHON_BODIES:
            code = _OPTIONS.sub("", arguments, count=1)
            if parsed(code) is not None:
                return code or "pass"
        self.words |= _words(arguments)
        self.anything = self.anything or name in _DEFINES_ANYTHING
        if name == "reset":
            self.resets, self.anything = True, False
        return "pass"

    def _scan(self, line: str) -> None:
        """Follow strings and brackets through a line of Python."""
        at = 0
        self._continued = line.endswith("\\") and not self._quote
        while at < len(line):
            if self._quote:
                end = _end_of(line, at, self._quote)
                if end < 0:
                    return
                at, self._quote = end, ""
                continue
            token = _TOKEN.search(line, at)
            if token is None:
                return
            at, word = token.end(), token[0]
            if word in ("'''", '"""'):
                self._quote = word
            elif word in "([{":
                self._depth += 1
            elif word in ")]}":
                self._depth -= 1
            elif word[0] == "#":
                self._continued = False


def _end_of(line: str, at: int, quote: str) -> int:
    """Where a long string that is open at a place ends in this line, or -1."""
    while (end := line.find(quote, at)) >= 0:
        before = line[at:end]
        if (len(before) - len(before.rstrip("\\"))) % 2 == 0:
            return end + len(quote)
        at = end + 1
    return -1


def _words(text: str) -> frozenset[str]:
    return frozenset(_WORD.findall(text))
