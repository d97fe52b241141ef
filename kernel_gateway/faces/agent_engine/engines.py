"""Engines (`reasoningEngines`): what sandboxes, snapshots and templates belong to. Nothing is deployed to one here."""

from __future__ import annotations

import contextlib
from collections.abc import Collection
from typing import Any, Final

from sqlalchemy import ColumnElement

from kernel_gateway.errors import NotFound, SessionElsewhere
from kernel_gateway.faces.agent_engine import answers
from kernel_gateway.faces.agent_engine.calls import Call
from kernel_gateway.faces.agent_engine.filters import parse_filter
from kernel_gateway.faces.errors import NotOffered
from kernel_gateway.storage import agent_engine
from kernel_gateway.storage.agent_engine import EVERYTHING, SESSIONS, Kind, ResourceRow
from sandcell.errors import NotFound as ClientNotFound
from sandcell.errors import SandcellError

PAGE: Final = 100
MOST_PAGE: Final = 1_000


async def create_engine(call: Call) -> dict[str, Any]:
    """An empty one; whatever would deploy an agent to it is refused."""
    call.services.limits.take_invocation(call.principal)
    body = call.body
    if body.spec or body.context_spec or body.encryption_spec:
        raise NotOffered("no agent is deployed here: an engine only holds sandboxes; leave out spec, contextSpec, ...")
    content = {"description": body.description, "labels": body.labels}
    row = await call.face.resources.add(
        call.principal,
        "engine",
        call.place,
        display_name=body.display_name or "",
        content={name: value for name, value in content.items() if value},
    )
    return answers.describe_operation(row, "create")


async def get_engine(call: Call) -> dict[str, Any]:
    return answers.describe(await find_engine(call))


async def list_engines(call: Call) -> dict[str, Any]:
    """The caller's engines in this project and location."""
    place = call.place.choose()
    return await list_page(
        call, "reasoningEngines", agent_engine.engines_of(call.principal.id, place.project, place.location)
    )


async def delete_engine(call: Call) -> dict[str, Any]:
    """With `force` also what is in it: its sandboxes and snapshots end first."""
    call.services.limits.take_invocation(call.principal)
    row = await find_engine(call)
    force = call.query.force or bool(call.body.force)
    if force:
        for kind in SESSIONS:
            await _stop_sessions(call, row, kind)
    for session_id in await call.face.resources.delete(row, force=force):  # those that came meanwhile
        with contextlib.suppress(NotFound):
            await _stop(call, session_id, "sandbox")
    return answers.describe_operation(await find_engine(call, deleted=True), "delete")


async def _stop_sessions(call: Call, engine: ResourceRow, kind: Kind) -> None:
    token, where = None, agent_engine.children_of(engine.id, kind)
    while True:
        rows, token = await call.face.resources.list(where, EVERYTHING, MOST_PAGE, token)
        for row in rows:
            await _stop(call, row.session_id or "", kind)
        if token is None:
            return


async def _stop(call: Call, session_id: str, kind: Kind) -> None:
    """End one, a snapshot with its files; at another gateway by asking for it as its caller would."""
    gateways, principal = call.services.gateways, call.principal
    home = await gateways.find("session", session_id) if gateways.lease is not None else None
    if gateways.lease is not None and home is not None and home.live and not gateways.is_self(home):
        from sandcell.nonblocking import AsyncClient  # noqa: PLC0415 - with an HTTP client, which most services never need

        try:
            async with AsyncClient(gateways.lease.place.address, call.token) as client:
                await client.stop_session(session_id)
                if kind == "snapshot":
                    await client.delete_workspace(session_id)
        except ClientNotFound:
            return
        except SandcellError as error:
            raise SessionElsewhere(f"another gateway did not end it: {error.message}", session_id=session_id) from None
    elif kind == "snapshot":
        await call.services.session_copies.remove(principal, session_id)
    else:
        await call.services.sessions.stop(principal, session_id)


async def find_engine(call: Call, *, deleted: bool = False) -> ResourceRow:
    """The engine that the address names; raises NotFound."""
    return await call.face.resources.find(call.principal, "engine", call.place, dict(call.ids), deleted=deleted)


async def list_page(
    call: Call, name: str, where: Collection[ColumnElement[bool]], *, states: bool = False
) -> dict[str, Any]:
    """The page that is asked for of what is at `where`; `states`: its items have one."""
    wanted, size = parse_filter(call.query.filter, states=states), min(call.query.page_size or PAGE, MOST_PAGE)
    rows, token = await call.face.resources.list(where, wanted, size, call.query.page_token or None)
    answer: dict[str, Any] = {name: [answers.describe(row) for row in rows]}
    return {**answer, "nextPageToken": token} if token else answer
