"""The client's operations that look into a session: its variables, and its outputs in full. No I/O; see `steps`."""

from __future__ import annotations

from kernel_gateway.client.steps import Ask, Operation, decoded, exchange, quoted
from kernel_gateway.inspection_shapes import Variables

SESSIONS = "/v1/sessions"


def variables(session_id: str) -> Operation[Variables]:
    """The names that the session's Python code has defined, also while code runs; none of it runs for this."""
    return decoded((yield from exchange(Ask("GET", f"{SESSIONS}/{quoted(session_id)}/variables"))), Variables)
