"""One record in the audit log for each call of every face, taken when the call is over, whatever came of it.

A face says what it knows of a call (`CallRecord`); what every call has is read from the request here. The query, which
may hold a token, is never recorded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
from tornado.httputil import HTTPServerRequest

from kernel_gateway.client_address import find_client_address
from kernel_gateway.identity.principal import Principal
from kernel_gateway.services.audit.api_call import ApiCall

if TYPE_CHECKING:
    from kernel_gateway.services.composition import Services

UNKNOWN_ROUTE = "UnknownRoute"
"""The event of requests that no route takes."""
LONGEST_ID = 128
"""Of the id of a session, as an address names it."""


class CallRecord(msgspec.Struct, frozen=True, kw_only=True):
    """What a face says of a call: its name, who called, for which session, with what.

    `principal` is ANONYMOUS when the caller is not known, `access_key_id` what the request claimed to be signed with.
    """

    event: str
    source: str
    read_only: bool
    principal: Principal
    session_id: str | None = None
    access_key_id: str = ""
    parameters: dict[str, Any] | None = None
    answer: dict[str, Any] | None = None


class Problem(msgspec.Struct, frozen=True):
    """The error that was answered, or what kept the answer from arriving whole; empty after a success."""

    code: str = ""
    message: str = ""


def take_record(
    services: Services,
    request: HTTPServerRequest,
    record: CallRecord,
    *,
    request_id: str,
    status: int,
    problem: Problem,
    seconds: float,
) -> None:
    """Give the audit log the record of a call that is over."""
    services.audit.call(
        ApiCall(
            event_name=record.event,
            event_source=record.source,
            request_id=request_id,
            read_only=record.read_only,
            principal=record.principal if record.principal.is_known else None,
            access_key_id=record.access_key_id,
            source_ip=find_client_address(request, services.settings.trusted_proxies),
            user_agent=request.headers.get("User-Agent", ""),
            target=f"{request.method} {request.path}",
            session_id=record.session_id,
            request_parameters=record.parameters or None,
            response_elements=record.answer,
            status=status,
            error_code=problem.code,
            error_message=problem.message,
            seconds=seconds,
        )
    )
