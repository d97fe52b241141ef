"""A cell as IPython takes it to Python that `ast` reads: magics, shell lines and help put aside. Pure, linear.

Only what bears on names is kept. What a magic may define counts as defined, and of a cell that nothing here understands
every word does: better to accuse no name than a wrong one.
"""

from __future__ import annotations

import ast
import re
import textwrap
import warnings
from typing import Final

import msgspec

from kernels.notebook.cell_source import Command, cell_magic, read_cell

_FILE: Final = "<recorded cell>"
_LONGEST_SOURCE: Final = 200_000
_WORD: Final = re.compile(r"[^\W\d]\w{0,200}")
_OPTIONS: Final = re.compile(r"\A(?:-[a-zA-Z]\s?\d*\s+)*")
_AUTOMAGIC: Final = re.compile(
    r"(?:pip|conda|mamba|uv|ls|ll|cd|cat|pwd|cp|mv|rm|mkdir|rmdir|man|clear|who|whos)(?![\w])(?!\s*[=(.,\[:+*/)\]])"
)
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


class CellSource(msgspec.Struct, frozen=True):
    """`tree`: None when there is no Python to read. `words`: names that may be defined as well.

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
    if (tree := parse(source)) is not None:
        return CellSource(tree)
    magic = cell_magic(source)
    if magic is None:
        return _by_lines(source)
    if magic.name not in _PYTHON_BODIES:
        seen = magic.arguments if magic.name in _OTHER_BODIES else source
        return CellSource(None, _words(seen), anything=magic.name in _DEFINES_ANYTHING)
    tree = parse(magic.body)
    inner = CellSource(tree) if tree is not None else _by_lines(magic.body)
    return CellSource(inner.tree, inner.words | _words(magic.arguments), inner.anything, inner.resets)


def parse(source: str) -> ast.Module | None:
    """The syntax tree, or None for what Python does not parse."""
    warnings.filterwarnings("ignore", module=re.escape(_FILE))  # a bad escape in a recorded string concerns no reader
    try:
        return ast.parse(textwrap.dedent(source) if source[:1].isspace() else source, _FILE)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _by_lines(source: str) -> CellSource:
    if _AUTOMAGIC.match(source.strip()) and "\n" not in source.strip():  # IPython tries this of cells of one line
        return CellSource(ast.Module([], []))
    commands = _Commands()
    tree = parse("\n".join(each if isinstance(each, str) else commands.python_for(each) for each in read_cell(source)))
    words = frozenset(commands.words) if tree is not None else _words(source)
    return CellSource(tree, words, commands.anything, commands.resets)


class _Commands:
    """Puts Python in the place of commands, and remembers what they may define."""

    def __init__(self) -> None:
        self.words: set[str] = set()
        self.anything = False
        self.resets = False

    def python_for(self, command: Command) -> str:
        if command.assigned:
            return command.before + "None"
        return command.before + (self._magic(command.text) if command.escape == "%" else "pass")

    def _magic(self, text: str) -> str:
        name, _, arguments = text.lstrip("%").partition(" ")
        if name in _PYTHON_BODIES:
            code = _OPTIONS.sub("", arguments, count=1)
            if parse(code) is not None:
                return code or "pass"
        self.words |= _words(arguments)
        self.anything = self.anything or name in _DEFINES_ANYTHING
        if name == "reset":
            self.resets, self.anything = True, False
        return "pass"


def _words(text: str) -> frozenset[str]:
    return frozenset(_WORD.findall(text))
