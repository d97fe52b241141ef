"""Executions of a session. Endpoints translate and decide nothing."""

from __future__ import annotations

from typing import Final

from kernel_gateway import errors as e
from kernel_gateway.errors import InvalidRequest
from kernel_gateway.faces.responses import Response
from kernel_gateway.faces.rest.calls import Call
from kernel_gateway.faces.rest.parameters import Followed, PageOfExecutions
from kernel_gateway.faces.rest.resources.leases import HOLDS, LEASE_HEADER
from kernel_gateway.faces.rest.responses import EVENTS, answer_accepted, answer_events
from kernel_gateway.faces.rest.route import Errors, Route
from kernel_gateway.faces.rest.sse import read_last_event_id
from kernel_gateway.identity.principal import Principal
from sandcell.models.executions import Event, Execution, ExecutionPage, Submission, WidgetMove, WidgetMoved

MOST_KEY_CHARACTERS: Final = 200


async def run_execution(call: Call) -> Execution | Response:
    """Submit; with `wait` stay for the outcome. A caller who leaves while waiting cancels nothing."""
    session_id, executions = call.ids["session_id"], call.services.executions
    key = read_idempotency_key(call.headers.get("Idempotency-Key"))
    lease = call.headers.get(LEASE_HEADER)
    execution = await executions.submit(call.principal, session_id, call.body, key, lease=lease)
    if not call.body.wait:
        return answer_accepted(execution)
    call.cancellable = True
    return await executions.wait(call.principal, session_id, execution.id)


async def list_executions(call: Call) -> ExecutionPage:
    return await list_executions_of(call, call.principal, call.ids["session_id"])


async def list_executions_of(call: Call, principal: Principal, session_id: str) -> ExecutionPage:
    """The page that the call asks for, as this principal sees it."""
    query = call.query
    return await call.services.executions.list(
        principal,
        session_id,
        query.limit,
        query.cursor,
        outcomes=query.outcomes,
        newest_first=query.newest_first,
        commands=query.commands,
    )


async def get_execution(call: Call) -> Execution:
    return await call.services.executions.get(call.principal, call.ids["session_id"], call.ids["execution_id"])


async def follow_execution(call: Call) -> Response:
    after = read_last_event_id(call.headers.get("Last-Event-ID"))
    session_id, execution_id, late = call.ids["session_id"], call.ids["execution_id"], call.query.late
    events = await call.services.executions.events(call.principal, session_id, execution_id, after, late=late)
    return answer_events(events)


async def interrupt_execution(call: Call) -> Execution:
    return await call.services.executions.interrupt(call.principal, call.ids["session_id"], call.ids["execution_id"])


async def move_widget(call: Call) -> WidgetMoved:
    ids, lease = call.ids, call.headers.get(LEASE_HEADER)
    moves = call.services.widget_moves
    return await moves.move(call.principal, ids["session_id"], ids["execution_id"], call.body, lease)


def read_idempotency_key(header: str | None) -> str | None:
    """The header's value, bounded and printable; raises InvalidRequest."""
    if header is None:
        return None
    if not 1 <= len(header) <= MOST_KEY_CHARACTERS or not (header.isascii() and header.isprintable()):
        raise InvalidRequest(
            f"Idempotency-Key must be 1 to {MOST_KEY_CHARACTERS} printable ASCII characters", field="Idempotency-Key"
        )
    return header


EXECUTIONS: Final = "/v1/sessions/{session_id}/executions"
EXECUTION: Final = "/v1/sessions/{session_id}/executions/{execution_id}"
KEY: Final = {"Idempotency-Key": "the same key and body return the same execution: code never runs twice on a retry"}
LAST: Final = {"Last-Event-ID": "go on after this event"}
ID: Final[Errors] = (e.NotFound,)
LIVE: Final[Errors] = (e.NotFound, e.SessionTerminated, e.SandboxUnavailable)
RUN: Final[Errors] = (
    *LIVE,
    e.SessionBusy,
    e.GenerationMismatch,
    e.IdempotencyConflict,
    e.QueueFull,
    e.RateLimited,
    e.NoSpace,
    e.WorkspaceRestoring,
    e.ShuttingDown,
)

ROUTES: Final[tuple[Route, ...]] = (
    Route(
        "POST",
        EXECUTIONS,
        run_execution,
        name="runExecution",
        event="ExecuteCode",
        summary="Run code; with `wait` answer with the outcome, else with 202",
        result=Execution,
        body=Submission,
        headers={**KEY, **HOLDS},
        invocation=True,
        accepted=True,
        errors=RUN,
    ),
    Route(
        "GET",
        EXECUTIONS,
        list_executions,
        name="listExecutions",
        event="ListExecutions",
        summary="List executions, oldest first or `newest_first`; with `commands` shell commands as well",
        result=ExecutionPage,
        query=PageOfExecutions,
        errors=ID,
    ),
    Route(
        "GET",
        EXECUTION,
        get_execution,
        name="getExecution",
        event="GetExecution",
        summary="Show an execution",
        result=Execution,
        errors=ID,
    ),
    Route(
        "GET",
        f"{EXECUTION}/events",
        follow_execution,
        name="followExecution",
        event="FollowExecution",
        summary="Follow an execution by server-sent events, from the start or after `Last-Event-ID`",
        result=Event,
        query=Followed,
        media=EVENTS,
        headers=LAST,
        errors=ID,
    ),
    Route(
        "POST",
        f"{EXECUTION}/interrupt",
        interrupt_execution,
        name="interruptExecution",
        event="InterruptExecution",
        summary="Interrupt an execution, or stop a shell command",
        result=Execution,
        errors=LIVE,
    ),
    Route(
        "POST",
        f"{EXECUTION}/widgets",
        move_widget,
        name="moveWidget",
        event="MoveWidget",
        summary="Set values of a widget that the execution shows, or click it; 409 while code runs",
        result=WidgetMoved,
        body=WidgetMove,
        headers=HOLDS,
        errors=(*LIVE, e.SessionBusy, e.InvalidRequest, e.PayloadTooLarge, e.LimitReached, e.DeadlinePassed),
    ),
)
