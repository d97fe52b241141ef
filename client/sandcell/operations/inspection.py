"""The client's operations that look into a session: variables, completions, names, outputs in full. No I/O."""

from __future__ import annotations

from typing import Any, Literal

from sandcell.models.inspection import LOOK_SECONDS, Completions, InspectedName, TableRows, Variables
from sandcell.steps import Ask, Operation, decode, exchange, omit_none, quote

SESSIONS = "/v1/sessions"
SLACK_SECONDS = 10.0
"""How much longer than the kernel's answer the service's is waited for."""


def variables(session_id: str) -> Operation[Variables]:
    """The names that the session's Python code has defined, also while code runs; none of it runs for this."""
    return decode((yield from exchange(Ask("GET", f"{SESSIONS}/{quote(session_id)}/variables"))), Variables)


def complete(
    session_id: str, code: str, cursor_position: int | None = None, *, timeout: float = LOOK_SECONDS
) -> Operation[Completions]:
    """What completes Python code, as the session's kernel says at TAB: attributes, paths, magics, keyword arguments.

    `cursor_position` counts characters from the code's start; left out it is the end. Nothing is executed or recorded,
    though a property or a `__dir__` of the session's code may be called. Raises `Conflict` while code runs, and
    `ServiceUnavailable` when the kernel has not answered after `timeout` seconds (30 at most).
    """
    return decode((yield from _look(session_id, "completions", code, cursor_position, timeout)), Completions)


def inspect(
    session_id: str,
    code: str,
    cursor_position: int | None = None,
    *,
    detail: Literal[0, 1] = 0,
    timeout: float = LOOK_SECONDS,
) -> Operation[InspectedName]:
    """What the session's kernel knows of the name at a position of Python code; with `detail=1` also its source.

    The rest is as with `complete`.
    """
    looked = yield from _look(session_id, "inspections", code, cursor_position, timeout, detail=detail or None)
    return decode(looked, InspectedName)


def rows(
    session_id: str,
    name: str,
    first: int = 0,
    count: int = 100,
    *,
    histograms: bool = False,
    show: Literal["rows", "picture", "text"] = "rows",
    timeout: float = LOOK_SECONDS,
) -> Operation[TableRows]:
    """`count` rows, 1,000 at most, of the frame, series or array under a name, from the `first` (0) on.

    With `histograms` the columns have a `summary`. `show` gives an array as a `picture`, or any value as `text`, in the
    place of rows. The kernel makes all of it, between cells, which may run code of the session's. Raises as `complete`,
    and `NotFound` when there is no such name, `InvalidRequest` for what is no table or no picture.
    """
    more = omit_none(histograms=histograms or None, show=None if show == "rows" else show)
    body = {"name": name, "first": first, "count": count, "timeout_seconds": timeout, **more}
    address = f"{SESSIONS}/{quote(session_id)}/rows"
    return decode(
        (yield from exchange(Ask("POST", address, json=body, timeout_seconds=timeout + SLACK_SECONDS))), TableRows
    )


def _look(
    session_id: str, what: str, code: str, cursor_position: int | None, timeout: float, **more: Any
) -> Operation[bytes]:
    body = omit_none(code=code, cursor_position=cursor_position, timeout_seconds=timeout, **more)
    address = f"{SESSIONS}/{quote(session_id)}/{what}"
    # It is not sent a second time: by then the caller, who may be typing, has asked something else.
    ask = Ask("POST", address, json=body, timeout_seconds=timeout + SLACK_SECONDS)
    return (yield from exchange(ask, repeatable=False))


def output(session_id: str, sha256: str, *, start: int = 0, end: int | None = None) -> Operation[bytes]:
    """An output in full, or its bytes from `start` to `end`, by the digest in its cell's `metadata.sandcell.full`.

    `end` is the byte after the last one. A range that begins beyond the end raises `InvalidRequest`.
    """
    headers = {} if not start and end is None else {"Range": f"bytes={start}-{'' if end is None else end - 1}"}
    ask = Ask("GET", f"{SESSIONS}/{quote(session_id)}/outputs/{quote(sha256)}", headers=headers)
    return (yield from exchange(ask))
