"""The values of replays: what is asked for, what came of each cell.

A *replay* runs a notebook's code cells again and compares what they show with what the notebook says. A cell is named
by its id or its number: its place among all cells of the notebook, counted from 1.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec

from sandcell.models import constraints
from sandcell.models.model import Model

CellVerdictName = Literal[
    "same",
    "different",
    "not_deterministic",
    "cannot_tell",
    "failed",
    "needs_hidden_state",
    "timed_out",
    "not_run",
    "new",
]
ReplayStatus = Literal["running", "done", "stopped", "failed"]


def _nothing() -> msgspec.Raw:
    return msgspec.Raw(b"")


class ReplayRequest(Model, forbid_unknown_fields=True):
    """Body of `POST /v1/notebooks/replay`: a notebook, or the session whose notebook it is.

    `notebook` is the `.ipynb` as a JSON object, or its text as a string. `inputs` is a workspace whose files are copied
    into the fresh session first; `continue_session` runs the cells in that live session instead. `until`, a cell's id
    or number, is the last cell to run: the session then stays, as it does with `keep_session`. `determinism`: what
    differs is told from what is never the same by a second run in another fresh session. `strict`: nothing is put
    aside.
    """

    notebook: msgspec.Raw = msgspec.field(default_factory=_nothing)
    session_id: str | None = None
    environment: Annotated[str | None, msgspec.Meta(description="of the fresh session; else the recorded one's")] = None
    inputs: str | None = None
    continue_session: str | None = None
    stop_on_difference: bool = False
    until: int | str | None = None
    timeout_seconds: Annotated[float | None, constraints.SECONDS, msgspec.Meta(description="of each cell")] = None
    determinism: bool = True
    strict: bool = False
    keep_session: bool = False
    wait: bool = True


class CellReplay(Model):
    """What came of one code cell. `diff` is unified, record to replay; `execution_id` is in the replay's session.

    `same`: it showed the same, or failed in the same way; `why` says what was put aside. `new`: the notebook does not
    say what it shows. `not_deterministic`: two replays differ from each other, which does not explain the record.
    `cannot_tell`: nothing shows whether it is the same. `needs_hidden_state`: it uses a name that no recorded cell
    defines. `not_run`: `why` says why not.
    """

    number: int
    id: str
    verdict: CellVerdictName
    why: str = ""
    diff: str = ""
    status: str | None = None
    execution_id: str | None = None
    seconds: float | None = None


class ReplayError(Model):
    """Why a replay came to no end of its own: an error's code and message."""

    code: str
    message: str


class Replay(Model):
    """A replay, running or ended. `verdicts` has those there are so far, in the order of the cells; `of` says of what.

    `same`: every cell that was to run showed the same, or had nothing to be compared with. `notebook` is the notebook
    with the outputs of the replay, once it has ended. `session_live`: the session was kept, to be looked at.
    """

    id: str
    status: ReplayStatus
    session_id: str | None
    cells: int
    started_at: str
    of: str | None = None
    ended_at: str | None = None
    verdicts: list[CellReplay] = msgspec.field(default_factory=list)
    counts: dict[str, int] = msgspec.field(default_factory=dict)
    same: bool = False
    session_live: bool = False
    error: ReplayError | None = None
    notebook: Any = None
