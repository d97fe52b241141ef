"""The client's operations on attach tokens; `sessions` says what an operation is. No I/O."""

from __future__ import annotations

from collections.abc import Sequence

from sandcell.models.attach import AttachToken, Right
from sandcell.models.model import Page
from sandcell.steps import Ask, Operation, decode, exchange, omit_none, quote


def create_attach_token(
    session_id: str, *, name: str = "", ttl_seconds: int | None = None, can: Sequence[Right] = ()
) -> Operation[AttachToken]:
    """A new token that lets a Jupyter client attach to this session; the answer alone carries it."""
    body = omit_none(name=name or None, ttl_seconds=ttl_seconds, can=list(can) or None)
    return decode((yield from exchange(Ask("POST", _tokens(session_id), json=body))), AttachToken)


def list_attach_tokens(session_id: str, *, limit: int = 100, cursor: str | None = None) -> Operation[Page[AttachToken]]:
    """One page of a session's attach tokens, oldest first."""
    ask = Ask("GET", _tokens(session_id), omit_none(limit=limit, cursor=cursor))
    return decode((yield from exchange(ask)), Page[AttachToken])


def revoke_attach_token(session_id: str, token_id: str) -> Operation[AttachToken]:
    """The attach token counts no longer."""
    return decode((yield from exchange(Ask("DELETE", f"{_tokens(session_id)}/{quote(token_id)}"))), AttachToken)


def _tokens(session_id: str) -> str:
    return f"/v1/sessions/{quote(session_id)}/attach-tokens"
