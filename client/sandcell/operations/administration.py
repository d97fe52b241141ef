"""The client's operations on the audit log, tokens and access keys; `sessions` says what an operation is. No I/O."""

from __future__ import annotations

from sandcell.models.audit import AuditRecord, AuditVerification
from sandcell.models.credentials import AccessKeyInfo, ConsoleLink, Scope, TokenInfo
from sandcell.models.model import Page
from sandcell.steps import Ask, Operation, decode, exchange, omit_none, quote


def list_audit(
    *,
    session_id: str | None = None,
    principal: str | None = None,
    kind: str | None = None,
    event: str | None = None,
    error_code: str | None = None,
    allowed: bool | None = None,
    since: str | None = None,
    until: str | None = None,
    limit: int = 100,
    cursor: str | None = None,
) -> Operation[Page[AuditRecord]]:
    """One page of the audit log, newest first: your own records, an administrator all. Times are RFC 3339.

    A page may hold fewer than `limit` and still have a `next_cursor`. `principal` is a name or an id, of others an
    administrator's to ask for.
    """
    wanted = None if allowed is None else str(allowed).lower()
    query = omit_none(
        session_id=session_id,
        principal=principal,
        kind=kind,
        event=event,
        error_code=error_code,
        allowed=wanted,
        since=since,
        until=until,
        limit=limit,
        cursor=cursor,
    )
    return decode((yield from exchange(Ask("GET", "/v1/audit", query))), Page[AuditRecord])


def verify_audit() -> Operation[AuditVerification]:
    """Have the service verify its audit log; `get_audit_verification` says how far it is. Administrators only."""
    return decode((yield from exchange(Ask("POST", "/v1/audit/verification"))), AuditVerification)


def get_audit_verification() -> Operation[AuditVerification]:
    """How far the verification that was begun last is, or what it found. Administrators only."""
    return decode((yield from exchange(Ask("GET", "/v1/audit/verification"))), AuditVerification)


def create_console_link() -> Operation[ConsoleLink]:
    """A link that signs a browser in to the console as you, once and within a minute; it goes behind the URL."""
    return decode((yield from exchange(Ask("POST", "/v1/console/links"))), ConsoleLink)


def create_token(
    principal: str, name: str = "", *, scope: Scope | None = None, ttl_seconds: int | None = None
) -> Operation[TokenInfo]:
    """A new token; the answer alone carries the secret. Administrators only.

    Its scope is by default all that the principal may; without `ttl_seconds` it counts until it is revoked.
    """
    body = omit_none(principal=principal, name=name, scope=scope, ttl_seconds=ttl_seconds)
    return decode((yield from exchange(Ask("POST", "/v1/tokens", json=body))), TokenInfo)


def rotate_token(token_id: str, *, overlap_seconds: int = 0) -> Operation[TokenInfo]:
    """Another token in place of this one, which counts for `overlap_seconds` more. Administrators only."""
    ask = Ask("POST", f"/v1/tokens/{quote(token_id)}/rotate", json={"overlap_seconds": overlap_seconds})
    return decode((yield from exchange(ask)), TokenInfo)


def list_tokens(*, limit: int = 100, cursor: str | None = None) -> Operation[Page[TokenInfo]]:
    """One page of the tokens. Administrators only."""
    return decode(
        (yield from exchange(Ask("GET", "/v1/tokens", omit_none(limit=limit, cursor=cursor)))), Page[TokenInfo]
    )


def revoke_token(token_id: str) -> Operation[TokenInfo]:
    """The token counts no longer. Administrators only."""
    return decode((yield from exchange(Ask("DELETE", f"/v1/tokens/{quote(token_id)}"))), TokenInfo)


def create_key(
    principal: str, name: str = "", *, scope: Scope | None = None, ttl_seconds: int | None = None
) -> Operation[AccessKeyInfo]:
    """A new access key; the answer alone carries the secret; scope and lifetime as of a token. Administrators only."""
    body = omit_none(principal=principal, name=name, scope=scope, ttl_seconds=ttl_seconds)
    return decode((yield from exchange(Ask("POST", "/v1/keys", json=body))), AccessKeyInfo)


def list_keys(*, limit: int = 100, cursor: str | None = None) -> Operation[Page[AccessKeyInfo]]:
    """One page of the access keys. Administrators only."""
    ask = Ask("GET", "/v1/keys", omit_none(limit=limit, cursor=cursor))
    return decode((yield from exchange(ask)), Page[AccessKeyInfo])


def revoke_key(key_id: str) -> Operation[AccessKeyInfo]:
    """The access key counts no longer. Administrators only."""
    return decode((yield from exchange(Ask("DELETE", f"/v1/keys/{quote(key_id)}"))), AccessKeyInfo)
