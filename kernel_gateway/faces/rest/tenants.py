"""Endpoints of principals and of anybody's sessions; who may call them is the services' to say."""

from __future__ import annotations

from kernel_gateway.faces.rest.calls import NOTEBOOK, Call, Download
from kernel_gateway.principal_shapes import Disabled, OwnedSession, PrincipalInfo
from kernel_gateway.shapes import Execution, Page


async def principals(call: Call) -> Page[PrincipalInfo]:
    return await call.services.principals.list(call.principal, call.query.limit, call.query.cursor)


async def disable(call: Call) -> Disabled:
    return await call.services.principals.disable(call.principal, call.ids["principal"], call.body)


async def enable(call: Call) -> PrincipalInfo:
    return await call.services.principals.enable(call.principal, call.ids["principal"])


async def set_quota(call: Call) -> PrincipalInfo:
    return await call.services.principals.set_quota(call.principal, call.ids["principal"], call.body)


async def sessions(call: Call) -> Page[OwnedSession]:
    query = call.query
    return await call.services.oversight.list(
        call.principal, query.limit, query.cursor, owner=query.principal, status=query.status
    )


async def session(call: Call) -> OwnedSession:
    return await call.services.oversight.show(call.principal, call.ids["session_id"])


async def stop(call: Call) -> OwnedSession:
    return await call.services.oversight.stop(call.principal, call.ids["session_id"])


async def executions(call: Call) -> Page[Execution]:
    session_id, query = call.ids["session_id"], call.query
    owner = await call.services.oversight.owner(call.principal, session_id)
    return await call.services.executions.list(owner, session_id, query.limit, query.cursor)


async def notebook(call: Call) -> Download:
    session_id = call.ids["session_id"]
    owner = await call.services.oversight.owner(call.principal, session_id)
    reading = await call.services.notebooks.read(owner, session_id)
    return Download(reading.chunks, reading.size, "history.ipynb", NOTEBOOK)
