"""One record in the audit log for each request of this face, and for each socket when it opens and when it closes.

Requests without a token's worth of meaning (a browser's preflight, VS Code's look at `/`) are not recorded. The query,
which may hold a token, never is.
"""

from __future__ import annotations

from typing import Any

from kernel_gateway.client_address import client_address
from kernel_gateway.faces.jupyter.calls import Call
from kernel_gateway.services.audit.api_call import CLIENT_GONE, JUPYTER, REVOKED, ApiCall
from kernel_gateway.services.audit.parameters import shown

UNKNOWN = "UnknownRoute"
OPENED = "OpenChannels"
CLOSED = "CloseChannels"
LONGEST_ID = 128


def record(
    handler: Any, event: str, *, code: str = "", message: str = "", answer: Any = None, seconds: float | None = None
) -> None:
    """Take the record of a handler's request, or of its socket."""
    call: Call = handler.call
    request = handler.request
    handler.services.audit.call(
        ApiCall(
            event_name=event,
            event_source=JUPYTER,
            request_id=handler.request_id,
            read_only=request.method in ("GET", "HEAD") and event not in (OPENED, CLOSED),
            principal=call.principal if call.principal.id else None,
            source_ip=client_address(request, handler.services.settings.trusted_proxies),
            user_agent=request.headers.get("User-Agent", ""),
            target=f"{request.method} {request.path}",
            session_id=_session_id(call, answer),
            request_parameters=_parameters(call) or None,
            status=handler.get_status(),
            error_code=code,
            error_message=message,
            seconds=request.request_time() if seconds is None else seconds,
        )
    )


def problem(handler: Any) -> tuple[str, str]:
    """Code and message of the error that was answered."""
    if handler.error is not None:
        return handler.error.code, handler.error.message
    if handler.revoked:
        return REVOKED, "the credential was revoked before the answer was whole"
    if handler.gone:
        return CLIENT_GONE, "the client left before it had the whole answer"
    return "", ""


def _parameters(call: Call) -> dict[str, Any]:
    attached = {"attached": True} if call.visitor.attached else {}
    return shown(dict(call.ids)) | shown(call.body) | attached


def _session_id(call: Call, answer: Any) -> str | None:
    """The session that the address names, or that was started or found: the answer names that one."""
    named = call.ids.get("session_id")
    if named is None and isinstance(answer, dict):
        named = answer.get("id")
    return named if isinstance(named, str) and len(named) <= LONGEST_ID else None
