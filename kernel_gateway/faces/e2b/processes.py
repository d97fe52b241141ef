"""envd's remote procedures on processes: start and follow, input, signals, terminals."""

from __future__ import annotations

import asyncio
from base64 import b64encode
from collections.abc import AsyncIterator
from typing import Any, Final

from kernel_gateway.errors import DeadlinePassed, GatewayError, InvalidRequest, translate
from kernel_gateway.faces.e2b import answers, connect
from kernel_gateway.faces.e2b.calls import Call, require_live
from kernel_gateway.faces.e2b.identifiers import resolve_path
from kernel_gateway.faces.e2b.requests import ProcessInput, Start, StreamInput
from kernel_gateway.faces.e2b.sandboxes import check_variables
from kernel_gateway.faces.responses import Response, Stream, close_iterator
from kernels.guest_client.programs import ProgramEnd, ProgramEvent, ProgramOutput, ProgramRequest

KEEP_ALIVE_SECONDS: Final = 50.0
SIGNALS: Final = {"SIGNAL_SIGKILL": "SIGKILL", "SIGNAL_SIGTERM": "SIGTERM"}
LONGEST_TAG: Final = 200
MOST_ARGUMENTS: Final = 1_000
KILLED: Final = -1
"""The exit code of a process that a signal has ended."""


async def start_program(call: Call) -> Response:
    """Start one, and stream what it puts out. A client that leaves does not end it."""
    user = connect.read_user(call.headers.get("Authorization", ""))
    asked: Start = call.body
    config = asked.process
    if len(config.args) > MOST_ARGUMENTS or len(asked.tag or "") > LONGEST_TAG:
        raise InvalidRequest(f"a process has at most {MOST_ARGUMENTS:,} arguments, a tag {LONGEST_TAG} characters")
    _, context = await call.services.contexts.find(call.principal, call.session_id, None, check_variables(config.envs))
    request = ProgramRequest(
        command=[config.cmd, *config.args],
        directory=resolve_path(config.cwd or "", user),
        variables=context.variables,
        tag=asked.tag or "",
        size=(asked.pty.size.cols, asked.pty.size.rows) if asked.pty is not None else None,
        # Clients before the field was there may send input to every process.
        takes_input=asked.stdin is not False,
        timeout_seconds=_read_timeout(call),
    )
    call.services.limits.take_invocation(call.principal)
    events = await call.services.programs.start(call.principal, call.session_id, request, face="e2b")
    return _answer(call, events)


async def follow_program(call: Call) -> Response:
    """Stream what it puts out from now on."""
    selected = call.body.process
    events = await call.services.programs.follow(call.principal, call.session_id, pid=selected.pid, tag=selected.tag)
    return _answer(call, events)


def _read_timeout(call: Call) -> float:
    """After this time the process is ended; without one as late as any task."""
    text = call.headers.get("Connect-Timeout-Ms", "")
    most = call.services.settings.task_timeout_seconds
    if not text or text == "0":
        return float(most)
    if not text.isdecimal() or len(text) > 10:
        raise InvalidRequest("Connect-Timeout-Ms is a number of milliseconds")
    return min(max(int(text), 1) / 1000, float(most))


def _answer(call: Call, events: AsyncIterator[ProgramEvent]) -> Response:
    headers = {"Content-Type": connect.STREAM, "X-Accel-Buffering": "no"}
    return Response(Stream(_stream(call, events)), headers=headers)


async def _stream(call: Call, events: AsyncIterator[ProgramEvent]) -> AsyncIterator[bytes]:
    waiting: asyncio.Task[Any] | None = None
    failure: GatewayError | None = None
    try:
        while True:
            waiting = waiting or asyncio.ensure_future(anext(events, None))
            await asyncio.wait({waiting}, timeout=KEEP_ALIVE_SECONDS)
            if not waiting.done():
                yield connect.wrap({"event": {"keepalive": {}}})
                continue
            try:
                event, waiting = waiting.result(), None
            except Exception as error:
                failure, waiting = translate(error), None
                require_live(call)  # raises: the answer breaks off, by which clients know that the sandbox is gone
                break
            if event is None:
                break
            if isinstance(event, ProgramEnd) and event.timed_out:
                failure = DeadlinePassed("the process was ended at its timeout")
                break
            yield connect.wrap({"event": _describe(event)})
        yield connect.end(failure)
    finally:
        if waiting is not None:
            waiting.cancel()
            await asyncio.wait({waiting})
        await close_iterator(events)


def _describe(event: ProgramEvent) -> dict[str, Any]:
    if isinstance(event, ProgramOutput):
        return {"data": {event.stream: b64encode(event.data).decode()}}
    if isinstance(event, ProgramEnd):
        if event.signal is not None:
            status = f"signal: {event.signal}"
            return {"end": {"exitCode": KILLED, "exited": False, "status": status, "error": status}}
        code = event.exit_code or 0
        status = f"exit status {code}"
        return {"end": {"exitCode": code, "exited": True, "status": status, **({"error": status} if code else {})}}
    return {"start": {"pid": event.pid}}


async def list_programs(call: Call) -> Response:
    running = await call.services.programs.list_running(call.principal, call.session_id)
    return Response({"processes": [answers.describe_program(each) for each in running]})


async def send_input(call: Call) -> Response:
    selected = call.body.process
    await call.services.programs.send_input(
        call.principal, call.session_id, _read_input(call.body.input), pid=selected.pid, tag=selected.tag
    )
    return Response({})


def _read_input(sent: ProcessInput) -> bytes:
    return connect.read_bytes(sent.pty if sent.pty is not None else sent.stdin or "")


async def stream_input(call: Call) -> Response:
    """Input in pieces, of a stream that has come whole."""
    selected = None
    for message in connect.unwrap(call.content, StreamInput):
        if message.start is not None:
            selected = message.start.process
        elif message.data is not None:
            if selected is None:
                raise InvalidRequest("the first message of the stream says which process")
            await call.services.programs.send_input(
                call.principal, call.session_id, _read_input(message.data.input), pid=selected.pid, tag=selected.tag
            )
    return Response(connect.wrap({}) + connect.end(), headers={"Content-Type": connect.STREAM})


async def close_input(call: Call) -> Response:
    selected = call.body.process
    await call.services.programs.close_input(call.principal, call.session_id, pid=selected.pid, tag=selected.tag)
    return Response({})


async def signal_program(call: Call) -> Response:
    name = SIGNALS.get(call.body.signal)
    if name is None:
        raise InvalidRequest(f"signal is one of {', '.join(SIGNALS)}")
    selected = call.body.process
    await call.services.programs.signal(call.principal, call.session_id, name, pid=selected.pid, tag=selected.tag)
    return Response({})


async def resize_terminal(call: Call) -> Response:
    selected, terminal = call.body.process, call.body.pty
    if terminal is not None:
        size = terminal.size.cols, terminal.size.rows
        await call.services.programs.resize(call.principal, call.session_id, size, pid=selected.pid, tag=selected.tag)
    return Response({})
