"""Which outputs of a session's executions have a display id, and what becomes of them when a later one updates it.

As in Jupyter an update changes what was displayed under its id, whichever execution of the same kernel displayed it.
The outcome of the execution that made the update holds it, and the changed outcome what was there before. Pure but for
`store`, which is called in the transaction that stores whatever made the update.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec
from sqlalchemy import Connection

from kernel_gateway.storage import executions
from kernel_gateway.storage.executions import ExecutionRow, StoredOutcome, StoredUpdate

MOST_IDS: Final = 1_000
"""Display ids of one session that are remembered, the latest ones."""
MOST_PLACES: Final = 20
"""Outputs with one id that an update changes, the latest ones."""
MOST_BYTES: Final = 40_000_000
"""Of an execution's outputs with what updates by others have made of them, and with what was there before."""


class Displays:
    """Those of one live session; a kernel of another generation knows none of the one before, as in Jupyter."""

    def __init__(self) -> None:
        self._generation = 0
        self._places: OrderedDict[str, deque[tuple[str, int]]] = OrderedDict()

    def add(self, row: ExecutionRow, displays: Mapping[str, Sequence[int]]) -> None:
        """An execution has ended and is stored."""
        if row.generation > self._generation:
            self._generation = row.generation
            self._places.clear()
        for name, places in displays.items() if row.generation == self._generation else ():
            known = self._places.setdefault(name, deque(maxlen=MOST_PLACES))
            known.extend((row.id, place) for place in places)
            self._places.move_to_end(name)
        while len(self._places) > MOST_IDS:
            self._places.popitem(last=False)

    def updates(self, generation: int, updates: Mapping[str, Mapping[str, Any]]) -> list[StoredUpdate]:
        """Those that change something which an execution before has shown."""
        known = self._places if generation == self._generation else {}
        return [
            StoredUpdate(name, shown["data"], shown["metadata"], list(known[name]))
            for name, shown in updates.items()
            if name in known
        ]


def store(connection: Connection, row: ExecutionRow) -> ExecutionRow:
    """Change the stored outcomes that a row's updates are of; the row, with those updates that could be made."""
    if row.outcome is None or not row.outcome.updates:
        return row
    refused: set[tuple[str, int]] = set()
    for execution_id in targets(row.outcome.updates):
        found = executions.find(connection, row.session_id, execution_id)
        outcome = StoredOutcome() if found is None or found.outcome is None else found.outcome
        changed, left = update_outcome(outcome, execution_id, row.outcome.updates)
        refused |= {(execution_id, place) for place in left}
        if changed is not outcome:
            executions.set_outcome(connection, execution_id, changed)
    return msgspec.structs.replace(row, outcome=_without(row.outcome, refused)) if refused else row


def targets(updates: Sequence[StoredUpdate]) -> list[str]:
    """The executions that updates change."""
    return list(dict.fromkeys(execution_id for each in updates for execution_id, _ in each.places))


def update_outcome(
    outcome: StoredOutcome, execution_id: str, updates: Sequence[StoredUpdate]
) -> tuple[StoredOutcome, list[int]]:
    """An execution's outcome with its displays changed, and the places of those for which it has not the room."""
    outputs, originals, left = list(outcome.outputs), dict(outcome.originals), []
    size = _size([outputs, originals])
    for each in updates:
        content = {"data": each.data, "metadata": each.metadata}
        weight = _size(content)
        for place in (place for name, place in each.places if name == execution_id):
            if place >= len(outputs) or "data" not in outputs[place]:
                left.append(place)
                continue
            freed = _size(outputs[place]) if place in originals else 0
            if size + weight - freed > MOST_BYTES:
                left.append(place)
                continue
            size += weight - freed
            originals.setdefault(place, outputs[place])
            outputs[place] = {**outputs[place], **content}
    if originals == outcome.originals and outputs == outcome.outputs:
        return outcome, left
    return msgspec.structs.replace(outcome, outputs=outputs, originals=originals), left


def _without(outcome: StoredOutcome, refused: set[tuple[str, int]]) -> StoredOutcome:
    left = [
        msgspec.structs.replace(each, places=[place for place in each.places if tuple(place) not in refused])
        for each in outcome.updates
    ]
    return msgspec.structs.replace(outcome, updates=[each for each in left if each.places])


def _size(value: Any) -> int:
    return len(msgspec.json.encode(value))
