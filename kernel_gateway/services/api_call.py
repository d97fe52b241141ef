"""One call of an interface as the audit log keeps it: in the members that CloudTrail has, by CloudTrail's names. Pure.

A face makes an `ApiCall` when the call is over, whatever came of it, and gives it to `services.audit.call`. Parameters
and answers are what `audit_parameters.shown` leaves of them: never code, never the body of a file, never a secret.
"""

from __future__ import annotations

from typing import Any

import msgspec

from kernel_gateway.identity.principal import Principal

API = "api"
"""The kind of these records."""
REST = "rest.sandcell"
AGENTCORE = "bedrock-agentcore.amazonaws.com"
"""Where a call came in, as `event_source`; the second is what CloudTrail says, and what tools look for."""


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
