"""Labelled histories for the replay verdict: notebooks that ran three times, and what is to be said of each cell.

`load()` reads `data/*.json`, one file for each family; `record.py` makes them from `families/*.py`. README.md
explains the format. Labels are read off the documentation, never off a verdict.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

DATA = Path(__file__).parent / "data"
RUNS = ("recorded", "first", "second")
"""The run on record, and two runs in the replay, each in a kernel of its own."""

LABELS = ("same", "different", "undecidable")


@dataclass(frozen=True)
class Run:
    """What one cell showed in one run."""

    outputs: list[dict[str, Any]]  # as nbformat has them, texts whole and in one piece
    started_at: str  # by the clock of the run's own kernel, RFC 3339
    ended_at: str


@dataclass(frozen=True)
class Cell:
    """A cell and the label a person gave it."""

    source: str
    label: str
    why: str
    verdicts: frozenset[str]  # every verdict that agrees with the label
    runs: dict[str, Run]


@dataclass(frozen=True)
class History:
    """A notebook, the files it ran with, and its cells."""

    family: str
    name: str
    about: str
    files: dict[str, str]  # in the working directory of the record
    changed_files: dict[str, str]  # those that are otherwise in the replay
    cells: tuple[Cell, ...]

    def files_of(self, run: str) -> dict[str, str]:
        """All files of the working directory when `run` began."""
        return self.files if run == "recorded" else self.files | self.changed_files


def load() -> list[History]:
    """All histories, in the order of their families' names."""
    return [history for path in sorted(DATA.glob("*.json")) for history in _read(path)]


def _read(path: Path) -> Iterator[History]:
    family = json.loads(path.read_text(encoding="utf-8"))
    for entry in family["histories"]:
        cells = tuple(_read_cell(cell) for cell in entry["cells"])
        yield History(family["family"], entry["name"], entry["about"], entry["files"], entry["changed_files"], cells)


def _read_cell(entry: dict[str, Any]) -> Cell:
    shown = {run: entry["outputs"][run] for run in RUNS}
    runs = {
        run: Run(unpack(shown["recorded"] if shown[run] == "as recorded" else shown[run]), *entry["times"][run])
        for run in RUNS
    }
    return Cell(entry["source"], entry["label"], entry["why"], frozenset(entry["verdicts"]), runs)


def pack(outputs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Outputs as the data files have them: a text of several lines as a list, lines that repeat as `[line, times]`."""
    return [_map_texts(output, _pack_text) for output in outputs]


def unpack(outputs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The outputs that `pack` was given."""
    return [_map_texts(output, _unpack_text) for output in outputs]


def _map_texts(output: dict[str, Any], change: Any) -> dict[str, Any]:
    if "text" in output:
        return output | {"text": change(output["text"])}
    if "data" in output:
        plain = {mime: value if mime.endswith("json") else change(value) for mime, value in output["data"].items()}
        return output | {"data": plain}
    return output


def _pack_text(text: str) -> str | list[str | list[Any]]:
    lines: list[list[Any]] = []
    for line in text.splitlines(keepends=True):
        if lines and lines[-1][0] == line:
            lines[-1][1] += 1
        else:
            lines.append([line, 1])
    if len(lines) < 2 and all(times == 1 for _, times in lines):
        return text
    return [line if times == 1 else [line, times] for line, times in lines]


def _unpack_text(packed: str | list[str | list[Any]]) -> str:
    if isinstance(packed, str):
        return packed
    return "".join(part if isinstance(part, str) else part[0] * part[1] for part in packed)
