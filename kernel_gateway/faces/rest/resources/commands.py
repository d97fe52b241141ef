"""Shell commands, background tasks and followed programs of a session. Endpoints translate and decide nothing."""

from __future__ import annotations

from typing import Final

from kernel_gateway import errors as e
from kernel_gateway.faces.responses import Response
from kernel_gateway.faces.rest.calls import Call
from kernel_gateway.faces.rest.resources.executions import read_idempotency_key
from kernel_gateway.faces.rest.resources.leases import HOLDS, LEASE_HEADER
from kernel_gateway.faces.rest.responses import EVENTS, answer_accepted, answer_events
from kernel_gateway.faces.rest.route import Errors, Route
from kernel_gateway.faces.rest.sse import read_last_event_id
from sandcell.models.commands import (
    Command,
    CommandRequest,
    Program,
    ProgramInput,
    Programs,
    SignalProgram,
    StartProgram,
    TerminalSize,
)
from sandcell.models.executions import Event


async def run_command(call: Call) -> Command | Response:
    lease = call.headers.get(LEASE_HEADER)
    key = read_idempotency_key(call.headers.get("Idempotency-Key"))
    call.cancellable = call.body.stop_when_gone
    commands, session_id = call.services.commands, call.ids["session_id"]
    command = await commands.run(call.principal, session_id, call.body, lease=lease, key=key)
    return answer_accepted(command) if call.body.background else command


async def get_task(call: Call) -> Command:
    return await call.services.tasks.get(call.principal, call.ids["session_id"], call.ids["task_id"])


async def stop_task(call: Call) -> Command:
    return await call.services.tasks.stop(call.principal, call.ids["session_id"], call.ids["task_id"])


async def start_program(call: Call) -> Program:
    lease = call.headers.get(LEASE_HEADER)
    return await call.services.program_streams.start(call.principal, call.ids["session_id"], call.body, lease=lease)


async def list_programs(call: Call) -> Programs:
    return Programs(await call.services.program_streams.list_running(call.principal, call.ids["session_id"]))


async def get_program(call: Call) -> Program:
    return await call.services.program_streams.get(call.principal, call.ids["session_id"], call.ids["program_id"])


async def follow_program(call: Call) -> Response:
    after = read_last_event_id(call.headers.get("Last-Event-ID"))
    ids, streams = call.ids, call.services.program_streams
    return answer_events(await streams.follow(call.principal, ids["session_id"], ids["program_id"], after))


async def send_input(call: Call) -> None:
    ids, lease = call.ids, call.headers.get(LEASE_HEADER)
    streams = call.services.program_streams
    await streams.send_input(call.principal, ids["session_id"], ids["program_id"], call.body, lease=lease)


async def resize_terminal(call: Call) -> None:
    ids, streams = call.ids, call.services.program_streams
    await streams.resize(call.principal, ids["session_id"], ids["program_id"], call.body)


async def signal_program(call: Call) -> None:
    ids, streams = call.ids, call.services.program_streams
    await streams.signal(call.principal, ids["session_id"], ids["program_id"], call.body.signal)


TASK: Final = "/v1/sessions/{session_id}/tasks/{task_id}"
PROGRAMS: Final = "/v1/sessions/{session_id}/programs"
PROGRAM: Final = f"{PROGRAMS}/{{program_id}}"
KEY: Final = {"Idempotency-Key": "the same key and body return the same command: it never runs twice on a retry"}
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
        headers={**HOLDS, **KEY},
        invocation=True,
        accepted=True,
        errors=(*LIVE, e.SessionBusy, e.IdempotencyConflict, e.RateLimited, e.DeadlinePassed, e.ShuttingDown),
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
    Route(
        "POST",
        PROGRAMS,
        start_program,
        name="startProgram",
        event="StartProgram",
        summary="Start a program, by default a login shell, to be followed and written to",
        status=201,
        result=Program,
        body=StartProgram,
        headers=HOLDS,
        invocation=True,
        errors=(*LIVE, e.SessionBusy, e.RateLimited, e.LimitReached, e.NoSpace, e.ShuttingDown, e.PayloadTooLarge),
    ),
    Route(
        "GET",
        PROGRAMS,
        list_programs,
        name="listPrograms",
        event="ListPrograms",
        summary="List the programs that run in a session",
        result=Programs,
        errors=LIVE,
    ),
    Route(
        "GET",
        PROGRAM,
        get_program,
        name="getProgram",
        event="GetProgram",
        summary="Show a program that runs or ended a moment ago",
        result=Program,
        errors=LIVE,
    ),
    Route(
        "GET",
        f"{PROGRAM}/events",
        follow_program,
        name="followProgram",
        event="FollowProgram",
        summary="Follow a program by server-sent events, from what is kept of its output or after `Last-Event-ID`",
        result=Event,
        media=EVENTS,
        headers={"Last-Event-ID": "go on after so many bytes of its output: the id of the last event"},
        errors=(*LIVE, e.LimitReached),
    ),
    Route(
        "POST",
        f"{PROGRAM}/input",
        send_input,
        name="sendInput",
        event="SendInput",
        summary="Write to a program's terminal or standard input",
        status=204,
        body=ProgramInput,
        headers=HOLDS,
        scraped=True,
        errors=(*LIVE, e.Conflict, e.SessionBusy, e.LimitReached),
    ),
    Route(
        "POST",
        f"{PROGRAM}/size",
        resize_terminal,
        name="resizeTerminal",
        event="ResizeTerminal",
        summary="Change the size of a program's terminal",
        status=204,
        body=TerminalSize,
        scraped=True,
        errors=(*LIVE, e.Conflict),
    ),
    Route(
        "POST",
        f"{PROGRAM}/signal",
        signal_program,
        name="signalProgram",
        event="SignalProgram",
        summary="Signal a program; SIGTERM and SIGKILL reach all that it has started",
        status=204,
        body=SignalProgram,
        errors=(*LIVE, e.Conflict),
    ),
)
