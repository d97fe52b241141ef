"""The client's operations on principals and, for administrators, on the sessions of all. No I/O."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from sandcell.models.executions import ExecutionPage
from sandcell.models.model import Page
from sandcell.models.principals import Disabled, OwnedSession, PrincipalInfo
from sandcell.models.sessions import SessionStatus
from sandcell.operations.sessions import query_executions
from sandcell.steps import START_SECONDS, Ask, Operation, decode, exchange, omit_none, quote

SESSIONS = "/v1/admin/sessions"


def list_principals(*, limit: int = 100, cursor: str | None = None) -> Operation[Page[PrincipalInfo]]:
    """One page of the principals, by name. Administrators only, as everything here."""
    ask = Ask("GET", "/v1/principals", omit_none(limit=limit, cursor=cursor))
    return decode((yield from exchange(ask)), Page[PrincipalInfo])


def disable_principal(
    principal: str, *, sessions: Literal["stop", "hand_over"] = "stop", to: str | None = None
) -> Operation[Disabled]:
    """End everything of a principal at once; its live sessions are stopped, or handed over to the principal `to`."""
    ask = Ask("POST", f"/v1/principals/{quote(principal)}/disable", json=omit_none(sessions=sessions, to=to))
    return decode((yield from exchange(ask, repeatable=True)), Disabled)


def enable_principal(principal: str) -> Operation[PrincipalInfo]:
    """Let a principal's credentials count again."""
    ask = Ask("POST", f"/v1/principals/{quote(principal)}/enable")
    return decode((yield from exchange(ask, repeatable=True)), PrincipalInfo)


def set_quota(principal: str, live_sessions: int | None) -> Operation[PrincipalInfo]:
    """How many live sessions a principal may have; None: what the service's settings say."""
    ask = Ask("PUT", f"/v1/principals/{quote(principal)}/quota", json={"live_sessions": live_sessions})
    return decode((yield from exchange(ask)), PrincipalInfo)


def list_all_sessions(
    *,
    principal: str | None = None,
    status: SessionStatus | None = None,
    limit: int = 100,
    cursor: str | None = None,
) -> Operation[Page[OwnedSession]]:
    """One page of everybody's sessions, or of one principal's, newest first."""
    query = omit_none(principal=principal, status=status, limit=limit, cursor=cursor)
    return decode((yield from exchange(Ask("GET", SESSIONS, query))), Page[OwnedSession])


def get_any_session(session_id: str) -> Operation[OwnedSession]:
    """Show a session of any principal."""
    return decode((yield from exchange(Ask("GET", f"{SESSIONS}/{quote(session_id)}"))), OwnedSession)


def stop_any_session(session_id: str) -> Operation[OwnedSession]:
    """Stop a session of any principal."""
    ask = Ask("DELETE", f"{SESSIONS}/{quote(session_id)}", timeout_seconds=START_SECONDS)
    return decode((yield from exchange(ask)), OwnedSession)


def list_any_executions(
    session_id: str,
    *,
    limit: int = 100,
    cursor: str | None = None,
    outcomes: bool = True,
    newest_first: bool = False,
    commands: bool = False,
) -> Operation[ExecutionPage]:
    """One page of a session's executions, of any principal; the parameters are those of `list_executions`."""
    query = query_executions(limit, cursor, outcomes=outcomes, newest_first=newest_first, commands=commands)
    ask = Ask("GET", f"{SESSIONS}/{quote(session_id)}/executions", query)
    return decode((yield from exchange(ask)), ExecutionPage)


def get_any_notebook(session_id: str) -> Operation[dict[str, Any]]:
    """A session's notebook, of any principal."""
    content = yield from exchange(Ask("GET", f"{SESSIONS}/{quote(session_id)}/notebook"))
    return msgspec.json.decode(content, type=dict[str, Any])
