"""Anybody's sessions, for administrators; who may call is for the services to decide."""

from __future__ import annotations

from typing import Final

from kernel_gateway import errors as e
from kernel_gateway.faces.responses import Response
from kernel_gateway.faces.rest.calls import Call
from kernel_gateway.faces.rest.parameters import AnyObject, OwnedSessionsPage, PageOfExecutions
from kernel_gateway.faces.rest.resources.executions import list_executions_of
from kernel_gateway.faces.rest.responses import NOTEBOOK, answer_download
from kernel_gateway.faces.rest.route import Errors, Route
from sandcell.models.executions import ExecutionPage
from sandcell.models.model import Page
from sandcell.models.principals import OwnedSession


async def admin_list_sessions(call: Call) -> Page[OwnedSession]:
    query = call.query
    return await call.services.oversight.list(
        call.principal, query.limit, query.cursor, owner=query.principal, status=query.status
    )


async def admin_get_session(call: Call) -> OwnedSession:
    return await call.services.oversight.show(call.principal, call.ids["session_id"])


async def admin_stop_session(call: Call) -> OwnedSession:
    return await call.services.oversight.stop(call.principal, call.ids["session_id"])


async def admin_list_executions(call: Call) -> ExecutionPage:
    session_id = call.ids["session_id"]
    owner = await call.services.oversight.owner(call.principal, session_id)
    return await list_executions_of(call, owner, session_id)


async def admin_get_notebook(call: Call) -> Response:
    session_id = call.ids["session_id"]
    owner = await call.services.oversight.owner(call.principal, session_id)
    reading = await call.services.notebooks.read(owner, session_id)
    return answer_download(reading.chunks, reading.size, "history.ipynb", NOTEBOOK)


SESSIONS: Final = "/v1/admin/sessions"
SESSION: Final = "/v1/admin/sessions/{session_id}"
ONE: Final[Errors] = (e.Forbidden, e.NotFound)

ROUTES: Final[tuple[Route, ...]] = (
    Route(
        "GET",
        SESSIONS,
        admin_list_sessions,
        name="adminListSessions",
        event="ListAnySessions",
        summary="List anybody's sessions, newest first (administrators)",
        result=Page[OwnedSession],
        query=OwnedSessionsPage,
        errors=(e.Forbidden,),
    ),
    Route(
        "GET",
        SESSION,
        admin_get_session,
        name="adminGetSession",
        event="GetAnySession",
        summary="Show anybody's session",
        result=OwnedSession,
        errors=ONE,
    ),
    Route(
        "DELETE",
        SESSION,
        admin_stop_session,
        name="adminStopSession",
        event="StopAnySession",
        summary="Stop anybody's session",
        result=OwnedSession,
        errors=(*ONE, e.DeadlinePassed),
    ),
    Route(
        "GET",
        f"{SESSION}/executions",
        admin_list_executions,
        name="adminListExecutions",
        event="ListAnyExecutions",
        summary="List the executions of anybody's session; with `commands` its shell commands as well",
        result=ExecutionPage,
        query=PageOfExecutions,
        errors=ONE,
    ),
    Route(
        "GET",
        f"{SESSION}/notebook",
        admin_get_notebook,
        name="adminGetNotebook",
        event="GetAnyNotebook",
        summary="The `.ipynb` of anybody's session",
        result=AnyObject,
        media=NOTEBOOK,
        errors=ONE,
    ),
)
