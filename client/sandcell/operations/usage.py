"""The client's operations on usage, retention and the host; `sessions` says what an operation is. No I/O."""

from __future__ import annotations

from sandcell.models.model import Page
from sandcell.models.usage import Expired, HostFinding, PrincipalUsage
from sandcell.steps import START_SECONDS, Ask, Operation, decode, exchange, omit_none


def usage(*, limit: int = 100, cursor: str | None = None) -> Operation[Page[PrincipalUsage]]:
    """What your workspaces hold in the store; for an administrator a page of everybody's, by name."""
    return decode(
        (yield from exchange(Ask("GET", "/v1/usage", omit_none(limit=limit, cursor=cursor)))), Page[PrincipalUsage]
    )


def check_host() -> Operation[Page[HostFinding]]:
    """What the service's host can enforce, and whether what the service stands on answers. Administrators only."""
    ask = Ask("GET", "/v1/doctor", timeout_seconds=START_SECONDS)
    return decode((yield from exchange(ask)), Page[HostFinding])


def expire_workspaces(days: int | None = None, *, dry_run: bool = True) -> Operation[Expired]:
    """Remove workspaces that have not been used for so many days, or say which they are. Administrators only."""
    body = {**omit_none(days=days), "dry_run": dry_run}
    ask = Ask("POST", "/v1/retention", json=body, timeout_seconds=START_SECONDS)
    return decode((yield from exchange(ask, repeatable=dry_run)), Expired)
