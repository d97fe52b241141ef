"""One call of an interface as the audit log keeps it: in the members that CloudTrail has, by CloudTrail's names. Pure.

A face makes an `ApiCall` when the call is over, whatever came of it, and gives it to `services.audit.call`. Parameters
and answers are what `parameters.select_values` leaves of them: never code, never the body of a file, never a secret.
"""

from __future__ import annotations

from typing import Any

import msgspec

from kernel_gateway.identity.principal import Principal

API = "api"
"""The kind of these records."""
REST = "rest.sandcell"
JUPYTER = "jupyter.sandcell"
MCP = "mcp.sandcell"
E2B = "e2b.sandcell"
LIBRECHAT = "librechat.sandcell"
CONSOLE = "console.sandcell"
AGENTCORE = "bedrock-agentcore.amazonaws.com"
AGENT_ENGINE = "aiplatform.googleapis.com"
"""Where a call came in, as `event_source`; the last two are what the clouds' own logs say, and what tools look for."""
REVOKED = "revoked"
"""The error code of a call whose credential was revoked, or whose principal was disabled, before it was answered."""
CLIENT_GONE = "client_gone"
"""The error code of a call whose client left before it was answered: it was not refused."""


class ApiCall(msgspec.Struct, kw_only=True):
    """A call that is over. `error_code` is empty when it succeeded; a user's exception is a success of the call.

    `principal` is None when the caller is not known, and `access_key_id` then is what the request claimed. `session_id`
    is ours, with dashes. `target` is the address without its query.
    """

    event_name: str
    event_source: str
    request_id: str
    read_only: bool
    principal: Principal | None = None
    access_key_id: str = ""
    source_ip: str = ""
    user_agent: str = ""
    target: str = ""
    session_id: str | None = None
    request_parameters: dict[str, Any] | None = None
    response_elements: dict[str, Any] | None = None
    status: int = 200
    error_code: str = ""
    error_message: str = ""
    seconds: float = 0.0


def detail(call: ApiCall, event_time: str) -> dict[str, Any]:
    """The call as CloudTrail would tell it; texts of the caller's are still unbounded."""
    return {
        "eventTime": event_time,
        "eventSource": call.event_source,
        "eventName": call.event_name,
        "userIdentity": _identity(call),
        "sourceIPAddress": call.source_ip,
        "userAgent": call.user_agent,
        "requestParameters": call.request_parameters,
        "responseElements": call.response_elements,
        **({"errorCode": call.error_code, "errorMessage": call.error_message} if call.error_code else {}),
        "requestID": call.request_id,
        "readOnly": call.read_only,
        "additionalEventData": {
            "address": call.target,
            "sessionId": call.session_id,
            "httpStatus": call.status,
            "milliseconds": round(call.seconds * 1000, 2),
        },
    }


def _identity(call: ApiCall) -> dict[str, Any]:
    """Who called: `Administrator`, `Principal`, or `Unknown` for a caller without valid credentials.

    `onBehalfOf` names the person who looked at what is that principal's.
    """
    key = {"accessKeyId": call.access_key_id} if call.access_key_id else {}
    who = call.principal
    if who is None:
        return {"type": "Unknown", **key}
    kind = "Administrator" if who.admin else "Principal"
    looker = {"onBehalfOf": {"userId": who.looked_at_by}} if who.looked_at_by else {}
    return {"type": kind, "principalId": who.id, "userName": who.name, **key, **looker}
