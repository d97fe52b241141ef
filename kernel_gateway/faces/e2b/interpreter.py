"""The code interpreter: runs code as a stream of lines, and contexts."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any, Final

from kernel_gateway.errors import GatewayError, InvalidRequest, NotFound, translate
from kernel_gateway.faces.e2b.calls import Call, require_live
from kernel_gateway.faces.e2b.errors import SandboxGone
from kernel_gateway.faces.e2b.identifiers import HOME, resolve_path
from kernel_gateway.faces.e2b.results import KEEP_ALIVE, Lines
from kernel_gateway.faces.e2b.sandboxes import check_variables
from kernel_gateway.faces.json_bodies import encode
from kernel_gateway.faces.responses import Response, Stream, close_iterator
from kernel_gateway.services.clock import rfc3339
from kernel_gateway.storage.sessions import StoredContext
from kernels.execution.contexts import RunContext
from sandcell.models.executions import Event, Submission

NDJSON: Final = "application/x-ndjson"
KEEP_ALIVE_SECONDS: Final = 5.0
LANGUAGES: Final = {
    "python": "python",
    "python3": "python",
    "javascript": "javascript",
    "js": "javascript",
    "typescript": "typescript",
    "ts": "typescript",
    "bash": "bash",
}
LONGEST_ID: Final = 64
DEFAULT_CONTEXTS: Final = {"default": "python", "default-javascript": "javascript"}
"""Contexts that are always there, by their ids: code runs in them which names none."""
_SHELL: Final = "%%bash --no-raise-error\n"
"""A shell of its own for each run, in the Python kernel's directory and with its variables."""


async def run_code(call: Call) -> Response:
    """Submit, and stream what comes of it. A client that leaves interrupts the code."""
    body, services, principal = call.body, call.services, call.principal
    if body.context_id and body.language:
        raise InvalidRequest("Only one of context_id or language can be provided")
    variables = check_variables(body.env_vars)
    default = DEFAULT_CONTEXTS.get(body.context_id or "default")
    context_id = body.context_id if default is None else None
    language, context = await services.contexts.find(principal, call.session_id, context_id, variables)
    language = read_language(body.language) if body.language else default or language
    services.limits.take_invocation(principal)
    submission = _make_submission(body.code, language)
    execution = await services.executions.submit(
        principal, call.session_id, submission, face="e2b", context=_place(context, language)
    )
    events = await services.executions.events(principal, call.session_id, execution.id)
    lines = _stream(call, execution.id, events)
    return Response(Stream(lines), headers={"Content-Type": NDJSON, "X-Accel-Buffering": "no"})


def _make_submission(code: str, language: str) -> Submission:
    return Submission(_SHELL + code) if language == "bash" else Submission(code, language=language)


def _place(context: RunContext, language: str) -> RunContext:
    return context if language in ("python", "bash") else RunContext("", context.directory, context.variables)


async def _stream(call: Call, execution_id: str, events: AsyncIterator[Event]) -> AsyncIterator[bytes]:
    services, principal, lines, ended = call.services, call.principal, Lines(), False
    waiting: asyncio.Task[Any] | None = None
    try:
        while True:
            waiting = waiting or asyncio.ensure_future(anext(events, None))
            await asyncio.wait({waiting}, timeout=KEEP_ALIVE_SECONDS)
            if not waiting.done():
                yield _encode(KEEP_ALIVE)
                continue
            event, waiting = waiting.result(), None
            if event is None or event.event == "ended":
                break
            for line in lines.read(event, rfc3339(services.clock.now())):
                yield _encode(line)
        execution = await services.executions.wait(principal, call.session_id, execution_id)
        ended = True
        require_live(call)  # raises: the answer breaks off, by which clients know that the sandbox is gone
        for line in lines.close(execution):
            yield _encode(line)
    except SandboxGone:
        raise
    except GatewayError as error:
        for line in _describe_failure(error):
            yield _encode(line)
    finally:
        if waiting is not None:
            waiting.cancel()
            await asyncio.wait({waiting})
        await close_iterator(events)
        if not ended:
            work = services.executions.interrupt(principal, call.session_id, execution_id)
            services.background.spawn(work, f"interrupt {execution_id}")


def _describe_failure(error: GatewayError) -> list[dict[str, Any]]:
    message = translate(error).message
    return [
        {"type": "error", "name": "UnexpectedEndOfExecution", "value": message, "traceback": ""},
        {"type": "end_of_execution"},
    ]


def _encode(line: dict[str, Any]) -> bytes:
    return encode(line) + b"\n"


def read_language(name: str) -> str:
    """The language of a name. One that is not among E2B's may be that of a kernel that the image declares."""
    plain = name.strip().lower()
    return LANGUAGES.get(plain, plain)


async def create_context(call: Call) -> Response:
    language = read_language(call.body.language or "python")
    await call.services.executions.find_runtime(call.principal, call.session_id, _make_submission("", language))
    directory = resolve_path(call.body.cwd or HOME)
    if (await call.services.sandbox_files.stat(call.principal, call.session_id, directory)).kind != "directory":
        raise InvalidRequest(f"cwd: {directory!r} is no directory")
    made = await call.services.contexts.create(call.principal, call.session_id, language, directory)
    return Response(_describe(made))


async def list_contexts(call: Call) -> Response:
    created = await call.services.contexts.list(call.principal, call.session_id)
    always = [StoredContext(name, language, HOME) for name, language in DEFAULT_CONTEXTS.items()]
    return Response([_describe(each) for each in (*always, *created)])


async def restart_context(call: Call) -> Response:
    """A context that was created gets blank names; for a default one the sandbox's kernels are restarted."""
    if (context_id := _read_id(call)) in DEFAULT_CONTEXTS:
        await call.services.sessions.restart(call.principal, call.session_id)
    else:
        await call.services.contexts.restart(call.principal, call.session_id, context_id)
    return Response(b"null", headers={"Content-Type": "application/json"})


async def remove_context(call: Call) -> Response:
    if (context_id := _read_id(call)) in DEFAULT_CONTEXTS:
        raise InvalidRequest("a default context cannot be removed; restart it instead")
    await call.services.contexts.remove(call.principal, call.session_id, context_id)
    return Response(b"null", headers={"Content-Type": "application/json"})


def _read_id(call: Call) -> str:
    context_id = call.ids["context_id"]
    if len(context_id) > LONGEST_ID:
        raise NotFound("Context not found")
    return context_id


def _describe(context: StoredContext) -> dict[str, Any]:
    return {"id": context.id, "language": context.language, "cwd": context.directory}
