"""What the audit log keeps of this face's requests, and of each socket when it opens and when it closes. Pure."""

from __future__ import annotations

from kernel_gateway.faces.audit import LONGEST_ID, CallRecord
from kernel_gateway.faces.jupyter.calls import Call
from kernel_gateway.faces.responses import Answer, Response
from kernel_gateway.services.audit.api_call import JUPYTER
from kernel_gateway.services.audit.parameters import select_values

CLOSED = "CloseChannels"
"""The event of a socket that closes; one that opens is recorded by the name of its route."""


def describe_call(call: Call, event: str, *, read_only: bool, answer: Answer = None) -> CallRecord:
    attached = {"attached": True} if call.visitor.attached else {}
    return CallRecord(
        event=event,
        source=JUPYTER,
        read_only=read_only,
        principal=call.principal,
        session_id=_find_session_id(call, answer),
        parameters=select_values(dict(call.ids)) | select_values(call.body) | attached,
    )


def _find_session_id(call: Call, answer: Answer) -> str | None:
    """The session that the address names, or that was started or found: the answer names that one."""
    named = call.ids.get("session_id")
    value = answer.body if isinstance(answer, Response) else answer
    if named is None and isinstance(value, dict):
        named = value.get("id")
    return named if isinstance(named, str) and len(named) <= LONGEST_ID else None
