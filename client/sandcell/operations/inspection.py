"""The client's operations that look into a session: its variables, and its outputs in full. No I/O; see `steps`."""

from __future__ import annotations

from sandcell.models.inspection import Variables
from sandcell.steps import Ask, Operation, decode, exchange, quote

SESSIONS = "/v1/sessions"


def variables(session_id: str) -> Operation[Variables]:
    """The names that the session's Python code has defined, also while code runs; none of it runs for this."""
    return decode((yield from exchange(Ask("GET", f"{SESSIONS}/{quote(session_id)}/variables"))), Variables)


def output(session_id: str, sha256: str, *, start: int = 0, end: int | None = None) -> Operation[bytes]:
    """An output in full, or its bytes from `start` to `end`, by the digest in its cell's `metadata.sandcell.full`.

    `end` is the byte after the last one. A range that begins beyond the end raises `InvalidRequest`.
    """
    headers = {} if not start and end is None else {"Range": f"bytes={start}-{'' if end is None else end - 1}"}
    ask = Ask("GET", f"{SESSIONS}/{quote(session_id)}/outputs/{quote(sha256)}", headers=headers)
    return (yield from exchange(ask))
