"""Which outputs of a session's executions have a display id, and what becomes of them when a later one updates it.

As in Jupyter an update changes what was displayed under its id, whichever execution displayed it. Pure but for
`revise`, which is called in the transaction that stores whatever made the update.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec
from sqlalchemy import Connection

from kernel_gateway.storage import executions
from kernel_gateway.storage.executions import StoredOutcome

MOST_IDS: Final = 1_000
"""Display ids of one session that are remembered, the latest ones."""
MOST_PLACES: Final = 20
"""Outputs with one id that an update changes, the latest ones."""
Clean = Callable[[StoredOutcome], StoredOutcome]
"""Makes of an outcome what may be stored of it."""


@dataclass(frozen=True)
class Revision:
    """An output of an execution, and what it is from now on: its data and metadata."""

    execution_id: str
    place: int
    display_id: str
    output: Mapping[str, Any]


class Displays:
    """Those of one live session."""

    def __init__(self) -> None:
        self._places: OrderedDict[str, deque[tuple[str, int]]] = OrderedDict()

    def add(self, execution_id: str, displays: Mapping[str, Sequence[int]]) -> None:
        """An execution has ended and is stored."""
        for name, places in displays.items():
            known = self._places.setdefault(name, deque(maxlen=MOST_PLACES))
            known.extend((execution_id, place) for place in places)
            self._places.move_to_end(name)
        while len(self._places) > MOST_IDS:
            self._places.popitem(last=False)

    def revisions(self, updates: Mapping[str, Mapping[str, Any]]) -> list[Revision]:
        """What these updates change of the executions before."""
        return [
            Revision(execution_id, place, name, output)
            for name, output in updates.items()
            for execution_id, place in self._places.get(name, ())
        ]


def revise(connection: Connection, session_id: str, revisions: Sequence[Revision], clean: Clean) -> None:
    """Change the stored outputs."""
    for execution_id in dict.fromkeys(each.execution_id for each in revisions):
        row = executions.find(connection, session_id, execution_id)
        if row is not None and row.outcome is not None:
            changed = revised(row.outcome, [each for each in revisions if each.execution_id == execution_id])
            executions.set_outcome(connection, execution_id, clean(changed))


def revised(outcome: StoredOutcome, revisions: Sequence[Revision]) -> StoredOutcome:
    """An outcome with some of its displays changed."""
    outputs = list(outcome.outputs)
    for each in revisions:
        if each.place < len(outputs) and "data" in outputs[each.place]:
            outputs[each.place] = {**outputs[each.place], **each.output}
    return msgspec.structs.replace(outcome, outputs=outputs)


def told(revisions: Sequence[Revision]) -> list[dict[str, Any]]:
    """What the record of whatever made the updates says of them."""
    return [
        {
            "execution_id": each.execution_id,
            "output": each.place,
            "sha256": hashlib.sha256(msgspec.json.encode(each.output, order="sorted")).hexdigest(),
        }
        for each in revisions
    ]
