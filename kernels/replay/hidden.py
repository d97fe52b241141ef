"""Names that a notebook's cells read and none of them defines: state that the record does not hold. Pure.

By the syntax tree: nothing is run. A name is accused only on evidence; what a star import, `exec` or `%run` may have
defined is not.
"""

from __future__ import annotations

import builtins
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from kernels.outputs import Output
from kernels.replay.bundles import text_of
from kernels.replay.ipython_source import read
from kernels.replay.names import CellNames, names_of

_MOST_SOURCE: Final = 4_000_000
"""Characters of code that are read of one notebook; a cell beyond them may define any name."""
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


def hidden_names(cells: Sequence[str]) -> dict[int, list[str]]:
    """Cell index to the names it reads that neither an earlier cell nor Python nor IPython defines.

    `cells` are sources of code cells in the order in which they ran. Cells without such names are left out. Names that
    functions read count only if no cell at all defines them: they may be called later than the next cell.
    """
    steps = list(_steps(cells))
    bound = {name for step in steps for name in step.names.binds | step.names.later}
    open_door = any(step.names.anything for step in steps)
    found: dict[int, list[str]] = {}
    for index, step in enumerate(steps):
        missing = {name: None for name in step.names.reads if not step.anything and not _given(name, step.known)}
        if not open_door:
            missing.update({name: None for name in step.names.deferred if not _given(name, bound)})
        if named := [name for name in missing if len(name) <= _LONGEST_NAME][:_MOST_NAMES]:
            found[index] = named
    return found


def missing_name(replayed: Sequence[Output], cells: Sequence[str], index: int) -> str | None:
    """The name for want of which cell `index` failed, if no cell up to it defines it: hidden state. For `judge`.

    `replayed` are its outputs. None when it failed otherwise, when a cell that failed or differed was to define the
    name, or when something that cannot be read may have defined it.
    """
    name = _undefined(replayed)
    steps = list(_steps(cells[: index + 1]))
    if name is None or len(steps) <= index or steps[index].anything:
        return None
    step = steps[index]
    if name in step.known or (name in step.names.binds | step.names.later and not step.names.asks_for(name)):
        return None
    return name if any(each.names.asks_for(name) for each in steps) else None


@dataclass(frozen=True)
class _Step:
    """A cell, the names that the cells before it define, and whether any name may be."""

    names: CellNames
    known: frozenset[str]
    anything: bool


def _steps(cells: Sequence[str]) -> Iterator[_Step]:
    known, anything, future, room = frozenset[str](), False, False, _MOST_SOURCE
    for cell in cells:
        room -= len(cell)
        names = names_of(read(cell), future=future) if room >= 0 else CellNames(anything=True)
        yield _Step(names, known, anything)
        if names.resets:
            known, anything = frozenset(), False
        bound = names.binds | names.later
        if bound - known or names.unbinds & known:
            known = (known | bound) - names.unbinds
        anything, future = anything or names.anything, names.future


def _given(name: str, known: frozenset[str] | set[str]) -> bool:
    return name in known or name in _GIVEN or _OF_IPYTHON.fullmatch(name) is not None


def _undefined(outputs: Sequence[Output]) -> str | None:
    """The name in a NameError, if that is how the cell ended."""
    for output in outputs:
        if isinstance(output, dict) and output.get("output_type") == "error" and output.get("ename") == "NameError":
            match = _NAME_ERROR.search(text_of(output.get("evalue"))[:2_000])
            return match[1] if match else None
    return None
