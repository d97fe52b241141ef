"""One record in the audit log for each request of this face, in CloudTrail's names, made when it is over."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from kernel_gateway.client_address import client_address
from kernel_gateway.faces.agentcore.calls import Call
from kernel_gateway.faces.agentcore.identifiers import session_of
from kernel_gateway.services.audit.api_call import AGENTCORE, CLIENT_GONE, REVOKED, ApiCall
from kernel_gateway.services.audit.parameters import shown

UNKNOWN: Final = "UnknownOperation"


def parameters(call: Call) -> dict[str, Any]:
    """What is kept of a request's members: no code, no content of files."""
    return shown(call.outside) | shown(call.body)


def record(handler: Any) -> None:
    """Take the record of a handler's request, which is over."""
    request, operation, call, claim = handler.request, handler.operation, handler.call, handler.claim
    code, message = _problem(handler)
    elements = _elements(handler.answered_with)
    handler.services.audit.call(
        ApiCall(
            event_name=operation.name if operation else UNKNOWN,
            event_source=AGENTCORE,
            request_id=handler.request_id,
            read_only=bool(operation and operation.read_only),
            principal=call.principal if call else None,
            access_key_id=claim.access_key_id if claim else "",
            source_ip=client_address(request, handler.services.settings.trusted_proxies),
            user_agent=request.headers.get("User-Agent", ""),
            target=f"{request.method} {request.path}",
            session_id=_session_id(call, elements),
            request_parameters=handler.parameters or shown(handler.labels) or None,
            response_elements=elements,
            status=handler.get_status(),
            error_code=code,
            error_message=message,
            seconds=request.request_time(),
        )
    )


def _problem(handler: Any) -> tuple[str, str]:
    if handler.refused_with is not None:
        return handler.refused_with.shape, handler.refused_with.message
    if handler.revoked:
        return REVOKED, "the credential was revoked before the answer was whole"
    if handler.gone or not handler._finished:
        return CLIENT_GONE, "the client left before it had its answer; what was begun goes on"
    return "", ""


def _session_id(call: Call | None, elements: dict[str, Any] | None) -> str | None:
    """The session that was named, or that was started: only the answer names that one."""
    if call is None or call.session_id is not None:
        return call.session_id if call else None
    started = (elements or {}).get("sessionId")
    return session_of(started) if started else None


def _elements(content: bytes | None) -> dict[str, Any] | None:
    """Of an answer that changed something, and of a tool's result what `replies` tells of it."""
    return None if content is None else shown(msgspec.json.decode(content)) or None
