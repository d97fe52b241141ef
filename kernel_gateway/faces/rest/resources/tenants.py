"""Endpoints of principals and of anybody's sessions; who may call them is the services' to say."""

from __future__ import annotations

from typing import Final

from kernel_gateway import errors as e
from kernel_gateway.faces.rest.calls import NOTEBOOK, Call, Download
from kernel_gateway.faces.rest.parameters import AnyObject, OwnedSessionsPage, PageOf
from kernel_gateway.faces.rest.route import Errors, Route
from sandcell.models.principals import Disabled, DisablePrincipal, OwnedSession, PrincipalInfo, SetQuota
from sandcell.models.shapes import Execution, Page


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


# The rows of the table of routes that are about principals and, for administrators, about anybody's sessions.

ADMIN: Final[Errors] = (e.Forbidden,)
ONE: Final[Errors] = (e.Forbidden, e.NotFound)
P: Final = "/v1/principals/{principal}"
S: Final = "/v1/admin/sessions"
S_ONE: Final = "/v1/admin/sessions/{session_id}"

ROUTES: Final[tuple[Route, ...]] = (
    Route("GET", "/v1/principals", principals, "List principals", Page[PrincipalInfo], query=PageOf, errors=ADMIN),
    Route(
        "POST",
        f"{P}/disable",
        disable,
        "Disable a principal: its credentials, open calls, streams, sockets and replays end at once, its sessions too",
        Disabled,
        body=DisablePrincipal,
        errors=(*ONE, e.Conflict),
    ),
    Route("POST", f"{P}/enable", enable, "Let its credentials count again", PrincipalInfo, errors=ONE),
    Route(
        "PUT",
        f"{P}/quota",
        set_quota,
        "Say how many live sessions a principal may have",
        PrincipalInfo,
        body=SetQuota,
        errors=ONE,
    ),
    Route(
        "GET",
        S,
        sessions,
        "List anybody's sessions, newest first (administrators)",
        Page[OwnedSession],
        query=OwnedSessionsPage,
        errors=ADMIN,
    ),
    Route("GET", S_ONE, session, "Show anybody's session", OwnedSession, errors=ONE),
    Route("DELETE", S_ONE, stop, "Stop anybody's session", OwnedSession, errors=(*ONE, e.DeadlinePassed)),
    Route(
        "GET",
        f"{S_ONE}/executions",
        executions,
        "List the executions of anybody's session",
        Page[Execution],
        query=PageOf,
        errors=ONE,
    ),
    Route(
        "GET",
        f"{S_ONE}/notebook",
        notebook,
        "The `.ipynb` of anybody's session",
        AnyObject,
        media=NOTEBOOK,
        errors=ONE,
    ),
)
