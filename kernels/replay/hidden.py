"""Names that a notebook's cells read and none of them defines: state that the record does not hold. Pure.

By the syntax tree: nothing is run. A name is accused only on evidence; what a star import, `exec` or `%run` may have
defined is not.
"""

from __future__ import annotations

import builtins
import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Final

from kernels.execution.outputs import Output
from kernels.replay.ipython_source import read
from kernels.replay.names import CellNames, names_of
from kernels.replay.text import text_of

_MOST_SOURCE: Final = 1_000_000
"""Characters of code that are read of one notebook; cells beyond them may define any name."""
_MOST_NAMES: Final = 100
_LONGEST_NAME: Final = 200
_OF_IPYTHON: Final = re.compile(r"_{1,3}|_i{1,3}|_i?\d{1,9}|_[idoh]h|_exit_code|_ih|_oh|_dh")
_GIVEN: Final = frozenset(
    [
        *dir(builtins),
        *("In", "Out", "exit", "quit", "get_ipython", "display", "open", "copyright", "credits", "license"),
        *("__name__", "__doc__", "__package__", "__loader__", "__spec__", "__builtin__", "__builtins__", "__session__"),
        *("__annotations__", "WindowsError", "PythonFinalizationError", "anext", "aiter", "EncodingWarning"),
    ]
)
_NAME_ERROR: Final = re.compile(r"name '([^']{1,200})' is not defined")


def find_hidden_names(cells: Sequence[str]) -> dict[int, list[str]]:
    """Cell index to the names it reads that neither an earlier cell nor Python nor IPython defines.

    `cells` are sources of code cells in the order in which they ran. Cells without such names are left out. Names that
    functions read count only if no cell at all defines them: they may be called later than the next cell.
    """
    asked: list[dict[str, None]] = []
    steps: list[CellNames] = []
    for names, known, anything in _steps(_all_names(tuple(_readable(cells)))):
        asked.append({name: None for name in names.reads if not anything and not _is_given(name, known)})
        steps.append(names)
    bound = {name for names in steps for name in names.binds | names.later}
    open_door = len(steps) < len(cells) or any(names.anything for names in steps)
    found: dict[int, list[str]] = {}
    for index, (names, missing) in enumerate(zip(steps, asked, strict=True)):
        if not open_door:
            missing.update({name: None for name in names.deferred if not _is_given(name, bound)})
        if named := [name for name in missing if len(name) <= _LONGEST_NAME][:_MOST_NAMES]:
            found[index] = named
    return found


def missing_name(replayed: Sequence[Output], cells: Sequence[str], index: int) -> str | None:
    """The name for want of which cell `index` failed, if no cell up to it defines it: hidden state. For `judge`.

    `replayed` are its outputs. None when it failed otherwise, when a cell that failed or differed was to define the
    name, or when something that cannot be read may have defined it.
    """
    name = _find_undefined(replayed)
    if name is None:
        return None
    steps = _all_names(tuple(_readable(cells)))
    if index >= len(steps):
        return None
    known = anything = asked = False
    for names in steps[:index]:
        if names.resets:
            known = anything = False
        known = (known or name in names.binds or name in names.later) and name not in names.unbinds
        anything = anything or names.anything
        asked = asked or names.asks_for(name)
    names = steps[index]
    if anything or known or ((name in names.binds or name in names.later) and not names.asks_for(name)):
        return None
    return name if asked or names.asks_for(name) else None


def _readable(cells: Sequence[str]) -> Iterator[str]:
    """The cells from the first on that are read."""
    room = _MOST_SOURCE
    for cell in cells:
        room -= len(cell)
        if room < 0:
            return
        yield cell


@lru_cache(maxsize=4)
def _all_names(cells: tuple[str, ...]) -> list[CellNames]:
    """Each cell's names. Kept for the next question: where one cell fails, most of those after it do."""
    found: list[CellNames] = []
    future = False
    for cell in cells:
        found.append(names_of(read(cell), future=future))
        future = found[-1].future
    return found


def _steps(cells: Sequence[CellNames]) -> Iterator[tuple[CellNames, set[str], bool]]:
    """A cell's names, those that the cells before it define, and whether any may be; to be looked at at once."""
    known, anything = set[str](), False
    for names in cells:
        yield names, known, anything
        if names.resets:
            known, anything = set[str](), False
        known |= names.binds
        known |= names.later
        known -= names.unbinds
        anything = anything or names.anything


def _is_given(name: str, known: frozenset[str] | set[str]) -> bool:
    return name in known or name in _GIVEN or _OF_IPYTHON.fullmatch(name) is not None


def _find_undefined(outputs: Sequence[Output]) -> str | None:
    """The name in a NameError, if that is how the cell ended."""
    for output in outputs:
        if isinstance(output, dict) and output.get("output_type") == "error" and output.get("ename") == "NameError":
            match = _NAME_ERROR.search(text_of(output.get("evalue"))[:2_000])
            return match[1] if match else None
    return None
