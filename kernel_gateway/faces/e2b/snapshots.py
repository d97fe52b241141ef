"""Snapshots, and sandboxes that are forks of others: one a second time, as it is now, without running code again.

These translate and decide nothing. A snapshot's id is its session's, as a sandbox's is; E2B's clients give it, or the
name, as the template of a sandbox that is to begin as it.
"""

from __future__ import annotations

import re
import uuid
from typing import Any, Final

from kernel_gateway.errors import GatewayError, InvalidRequest, NotFound
from kernel_gateway.faces.e2b import errors
from kernel_gateway.faces.e2b.calls import Call
from kernel_gateway.faces.e2b.identifiers import TEMPLATES, format_sandbox_id, parse_snapshot
from kernel_gateway.faces.e2b.sandboxes import (
    OLD_TIMEOUT_SECONDS,
    build_wanted,
    describe,
    find_sessions,
    require_sandbox,
)
from kernel_gateway.faces.responses import Response
from kernel_gateway.services.replays.session_copies import Wanted
from sandcell.models.sessions import Session

NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")


async def create_snapshot(call: Call) -> dict[str, Any]:
    """Taken between two executions; the work goes on when the client leaves."""
    services, settings = call.services, call.services.settings
    services.limits.take_invocation(call.principal)
    await require_sandbox(call)
    session_id = str(uuid.uuid4())
    name = _read_name(call.body.name) or f"snapshot-{session_id[:8]}"
    seconds = settings.state_ttl_seconds
    lifetime = min(seconds, settings.session_timeout_max_seconds)
    wanted = Wanted(session_id, name, kept_seconds=float(seconds), lifetime_seconds=lifetime, snapshot=True)
    work = services.session_copies.copy(call.principal, call.session_id, wanted)
    return _describe_snapshot(await services.background.carry_out(work, "take a snapshot"))


async def list_snapshots(call: Call) -> Response:
    """One page of the caller's, newest first: of one sandbox, of one name, or all."""
    sandbox, name = call.query.get("sandboxID", ""), parse_snapshot(call.query.get("name", ""))

    def fits(session: Session) -> bool:
        if session.snapshot_of is None or name not in ("", session.id, session.name):
            return False
        return sandbox in ("", format_sandbox_id(session.snapshot_of))

    found, headers = await find_sessions(call, "HIBERNATED", fits)
    return Response([_describe_snapshot(each) for each in found], headers=headers)


async def delete_snapshot(call: Call) -> None:
    """With its files; sandboxes that began from it have their own."""
    snapshot = call.services.session_copies.find_snapshot(call.principal, parse_snapshot(call.ids["snapshot_id"]))
    if snapshot is None:
        raise NotFound("there is no such snapshot; other templates are environments, which their owners remove")
    await call.services.session_copies.remove(call.principal, snapshot.id)


async def fork_sandbox(call: Call) -> Response:
    """What came of each; the work goes on when the client leaves."""
    services, body = call.services, call.body
    services.limits.take_invocation(call.principal)
    await require_sandbox(call)
    wanted = [build_wanted(call, None, body.timeout or OLD_TIMEOUT_SECONDS) for _ in range(body.count)]
    work = services.session_copies.fork(call.principal, call.session_id, wanted)
    forks = await services.background.carry_out(work, "fork")
    return Response([await _describe_fork(call, each) for each in forks])


async def _describe_fork(call: Call, found: Session | GatewayError) -> dict[str, Any]:
    if isinstance(found, GatewayError):
        return {"error": errors.describe(found, "control")}
    return {"sandbox": await describe(call, found)}


def _describe_snapshot(session: Session) -> dict[str, Any]:
    return {"snapshotID": format_sandbox_id(session.id), "names": [session.name]}


def _read_name(text: str) -> str:
    """Raises InvalidRequest for a name by which no sandbox could be begun."""
    name = text.removesuffix(":default")
    if name and not NAME.fullmatch(name):
        raise InvalidRequest("name: up to 128 letters, digits, dots, dashes and underscores, without a tag")
    if name in TEMPLATES:
        raise InvalidRequest(f"name: {name} is a template of E2B's own")
    return name
