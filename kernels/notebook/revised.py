"""Cells of which a later one has updated a display: what they show since, and what they showed. Pure.

A written cell stays as it is. Its *revised* form has the last update in its outputs and keeps the output that was there
in `metadata.sandcell.revised`: so its link in the chain can be computed as ever. The digest of each update is in
`updates` of the cell that made it, which is in the chain; so `find_fault` finds an update that was changed, added or
taken away.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from kernels.notebook import canonical

KEY: Final = "revised"
_REPLACED: Final = ("data", "metadata")
"""The parts of an output that an update replaces."""


class Revision(msgspec.Struct, frozen=True):
    """An update of one output of a cell: its place, the id of the cell that made it, and the data and metadata."""

    place: int
    by: str
    content: Mapping[str, Any]


def digest_content(output: Mapping[str, Any]) -> str:
    """The SHA-256 of what an update shows."""
    return canonical.digest(canonical.output({name: output.get(name) for name in _REPLACED}))


def revise(cell: Mapping[str, Any], revisions: Sequence[Revision]) -> dict[str, Any]:
    """A cell as it was written with the last update of each of its outputs."""
    outputs, kept = list(cell["outputs"]), []
    for each in sorted(revisions, key=lambda one: one.place):
        if each.place < len(outputs):
            kept.append({"output": each.place, "by": each.by, "original": outputs[each.place]})
            outputs[each.place] = {**outputs[each.place], **each.content}
    if not kept:
        return dict(cell)
    record = {**cell["metadata"]["sandcell"], KEY: kept}
    return {**cell, "metadata": {**cell["metadata"], "sandcell": record}, "outputs": outputs}


def find_written_outputs(cell: Mapping[str, Any]) -> list[Any]:
    """The outputs of a cell as it was written, whether it is revised or not; of anything else, what it has."""
    outputs = cell.get("outputs")
    made = list(outputs) if isinstance(outputs, Sequence) else []
    for place, original in _originals(cell).items():
        if place < len(made):
            made[place] = original
    return made


def revisers(cell: Mapping[str, Any]) -> frozenset[str]:
    """The ids of the cells whose updates it shows."""
    told = _record(cell).get(KEY) if _originals(cell) else []
    return frozenset(each["by"] for each in told or () if isinstance(each.get("by"), str))


def find_fault(cells: Sequence[Any]) -> tuple[int, str] | None:
    """The first cell whose outputs are not what later cells made of them, and why; links are not looked at."""
    updates: dict[str, dict[int, str]] = {}
    for cell in cells:
        for execution_id, place, digest in _updates(cell):
            updates.setdefault(execution_id, {})[place] = digest
    for index, cell in enumerate(cells):
        name = _record(cell).get("execution_id")
        if why := _fault(cell, updates.get(name, {}) if isinstance(name, str) else {}):
            return index, why
    return None


def _fault(cell: Any, wanted: Mapping[int, str]) -> str | None:
    originals = _originals(cell)
    if KEY in _record(cell) and not originals:
        return "what it says of updates of its outputs is not what was recorded"
    outputs = cell.get("outputs") if isinstance(cell, Mapping) else None
    shown = outputs if isinstance(outputs, Sequence) else []
    for place in sorted({place for place in wanted if place < len(shown)} | set(originals)):
        if place not in wanted or place >= len(shown):
            return f"its output {place + 1} was changed after it was recorded: no cell of the notebook updates it"
        if place not in originals or not _is_update(shown[place], originals[place], wanted[place]):
            return f"its output {place + 1} is not what a later cell made of it"
    return None


def _is_update(shown: Any, original: Any, digest: str) -> bool:
    """Whether an output is the original with that update."""
    if not isinstance(shown, Mapping) or not isinstance(original, Mapping):
        return False
    rest = [{name: each[name] for name in each if name not in _REPLACED} for each in (shown, original)]
    try:
        return canonical.digest(rest[0]) == canonical.digest(rest[1]) and digest_content(shown) == digest
    except (RecursionError, ValueError, TypeError):
        return False


def _originals(cell: Any) -> dict[int, Any]:
    """The outputs that were replaced, by their places; nothing when that is not told as we tell it."""
    told = _record(cell).get(KEY)
    found = {}
    for each in told if isinstance(told, list) else []:
        place = each.get("output") if isinstance(each, Mapping) else None
        if type(place) is not int or place < 0 or "original" not in each or place in found:
            return {}
        found[place] = each["original"]
    return found


def _updates(cell: Any) -> list[tuple[str, int, str]]:
    """What a cell says that it made of outputs of others: execution, place, digest."""
    told = _record(cell).get("updates")
    found: list[tuple[str, int, str]] = []
    for each in told if isinstance(told, list) else []:
        execution_id, place, digest = (
            map(each.get, ("execution_id", "output", "sha256")) if isinstance(each, Mapping) else (None, None, None)
        )
        if isinstance(execution_id, str) and type(place) is int and isinstance(digest, str):
            found.append((execution_id, place, digest))
    return found


def _record(cell: Any) -> Mapping[str, Any]:
    metadata = cell.get("metadata") if isinstance(cell, Mapping) else None
    record = metadata.get("sandcell") if isinstance(metadata, Mapping) else None
    return record if isinstance(record, Mapping) else {}
