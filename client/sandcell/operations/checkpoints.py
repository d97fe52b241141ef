"""The client's operations on checkpoints; `sessions` says what an operation is. No I/O."""

from __future__ import annotations

from sandcell.models.model import Page
from sandcell.models.sessions import Checkpoint, Session
from sandcell.steps import START_SECONDS, Ask, Operation, decode, exchange, omit_none, quote

UNDO_SECONDS = 28_800.0
"""The service's default bound on one replay, which it may take."""


def create_checkpoint(session_id: str) -> Operation[Checkpoint]:
    """Keep a session's variables and files as they are now; forks and `undo` begin from the nearest one."""
    ask = Ask("POST", _checkpoints(session_id), timeout_seconds=START_SECONDS)
    return decode((yield from exchange(ask, repeatable=False)), Checkpoint)


def list_checkpoints(session_id: str, *, limit: int = 100, cursor: str | None = None) -> Operation[Page[Checkpoint]]:
    """One page of a session's checkpoints, oldest first."""
    ask = Ask("GET", _checkpoints(session_id), omit_none(limit=limit, cursor=cursor))
    return decode((yield from exchange(ask)), Page[Checkpoint])


def get_checkpoint(session_id: str, checkpoint_id: str) -> Operation[Checkpoint]:
    """Show a checkpoint."""
    return decode((yield from exchange(Ask("GET", f"{_checkpoints(session_id)}/{quote(checkpoint_id)}"))), Checkpoint)


def delete_checkpoint(session_id: str, checkpoint_id: str) -> Operation[None]:
    """Remove a checkpoint."""
    yield from exchange(Ask("DELETE", f"{_checkpoints(session_id)}/{quote(checkpoint_id)}"), removes=True)


def undo(session_id: str, cells: int = 1, *, exact: bool = False) -> Operation[Session]:
    """Take back a session's last cells: its variables and files are as before them, in a new generation.

    Files outside of the workspace stay. The answer's `restored` says which variables came back. Raises Conflict, and
    leaves the session as it is, when that state cannot be built again; with `exact` also when anything differs. Never
    sent twice: the second could take back more.
    """
    ask = Ask(
        "POST",
        f"/v1/sessions/{quote(session_id)}/undo",
        json=omit_none(cells=cells, exact=exact or None),
        timeout_seconds=UNDO_SECONDS,
    )
    return decode((yield from exchange(ask)), Session)


def _checkpoints(session_id: str) -> str:
    return f"/v1/sessions/{quote(session_id)}/checkpoints"
