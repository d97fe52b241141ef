"""Shell commands and background tasks of a session. Endpoints translate and decide nothing."""

from __future__ import annotations

from typing import Final

from kernel_gateway import errors as e
from kernel_gateway.faces.responses import Response
from kernel_gateway.faces.rest.calls import Call
from kernel_gateway.faces.rest.resources.leases import HOLDS, LEASE_HEADER
from kernel_gateway.faces.rest.responses import answer_accepted
from kernel_gateway.faces.rest.route import Errors, Route
from sandcell.models.commands import Command, CommandRequest


async def run_command(call: Call) -> Command | Response:
    lease = call.headers.get(LEASE_HEADER)
    call.cancellable = call.body.stop_when_gone
    command = await call.services.commands.run(call.principal, call.ids["session_id"], call.body, lease=lease)
    return answer_accepted(command) if call.body.background else command


async def get_task(call: Call) -> Command:
    return await call.services.tasks.get(call.principal, call.ids["session_id"], call.ids["task_id"])


async def stop_task(call: Call) -> Command:
    return await call.services.tasks.stop(call.principal, call.ids["session_id"], call.ids["task_id"])


TASK: Final = "/v1/sessions/{session_id}/tasks/{task_id}"
LIVE: Final[Errors] = (e.NotFound, e.SessionTerminated, e.SandboxUnavailable)

ROUTES: Final[tuple[Route, ...]] = (
    Route(
        "POST",
        "/v1/sessions/{session_id}/commands",
        run_command,
        name="runCommand",
        event="RunCommand",
        summary="Run a shell command; with `background` answer with a task and 202",
        result=Command,
        body=CommandRequest,
        headers=HOLDS,
        invocation=True,
        accepted=True,
        errors=(*LIVE, e.SessionBusy, e.RateLimited, e.DeadlinePassed, e.ShuttingDown),
    ),
    Route(
        "GET",
        TASK,
        get_task,
        name="getTask",
        event="GetTask",
        summary="Show a background task and its output so far",
        result=Command,
        errors=LIVE,
    ),
    Route(
        "DELETE",
        TASK,
        stop_task,
        name="stopTask",
        event="StopTask",
        summary="Stop a background task",
        result=Command,
        errors=LIVE,
    ),
)
