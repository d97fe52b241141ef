"""Endpoints of sessions, their executions, commands, tasks and notebooks. They translate and decide nothing."""

from __future__ import annotations

from kernel_gateway.errors import InvalidRequest
from kernel_gateway.faces.rest.calls import HTML, JSON, NOTEBOOK, PYTHON, Accepted, Call, Document, Download, Following
from kernel_gateway.faces.rest.resources.leases import LEASE_HEADER
from kernel_gateway.faces.rest.sse import last_event_id
from kernel_gateway.views.page import POLICY
from sandcell.models.shapes import Command, Execution, Page, Session

MOST_KEY_CHARACTERS = 200


async def index(call: Call) -> Page[Session]:
    query = call.query
    sessions, environment = call.services.sessions, query.environment
    return await sessions.list(call.principal, query.limit, query.cursor, query.status, environment=environment)


async def show(call: Call) -> Session:
    return await call.services.sessions.get(call.principal, call.ids["session_id"])


async def stop(call: Call) -> Session:
    return await call.services.sessions.stop(call.principal, call.ids["session_id"])


async def interrupt(call: Call) -> None:
    await call.services.sessions.interrupt(call.principal, call.ids["session_id"])


async def restart(call: Call) -> Session:
    return await call.services.sessions.restart(call.principal, call.ids["session_id"])


async def execute(call: Call) -> Execution | Accepted:
    """Submit; with `wait` stay for the outcome. A caller who leaves while waiting cancels nothing."""
    session_id, executions = call.ids["session_id"], call.services.executions
    key = idempotency_key(call.headers.get("Idempotency-Key"))
    lease = call.headers.get(LEASE_HEADER)
    execution = await executions.submit(call.principal, session_id, call.body, key, lease=lease)
    if not call.body.wait:
        return Accepted(execution)
    call.cancellable = True
    return await executions.wait(call.principal, session_id, execution.id)


async def executions(call: Call) -> Page[Execution]:
    query = call.query
    return await call.services.executions.list(call.principal, call.ids["session_id"], query.limit, query.cursor)


async def show_execution(call: Call) -> Execution:
    return await call.services.executions.get(call.principal, call.ids["session_id"], call.ids["execution_id"])


async def follow_execution(call: Call) -> Following:
    after = last_event_id(call.headers.get("Last-Event-ID"))
    session_id, execution_id, late = call.ids["session_id"], call.ids["execution_id"], call.query.late
    events = await call.services.executions.events(call.principal, session_id, execution_id, after, late=late)
    return Following(events)


async def interrupt_execution(call: Call) -> Execution:
    return await call.services.executions.interrupt(call.principal, call.ids["session_id"], call.ids["execution_id"])


async def run_command(call: Call) -> Command | Accepted:
    lease = call.headers.get(LEASE_HEADER)
    command = await call.services.commands.run(call.principal, call.ids["session_id"], call.body, lease=lease)
    return Accepted(command) if call.body.background else command


async def show_task(call: Call) -> Command:
    return await call.services.tasks.get(call.principal, call.ids["session_id"], call.ids["task_id"])


async def stop_task(call: Call) -> Command:
    return await call.services.tasks.stop(call.principal, call.ids["session_id"], call.ids["task_id"])


async def notebook(call: Call) -> Document | Download:
    """As it is, or as a view of it. A page holds what a sandbox put out: a browser lets nothing of it act."""
    session_id, form = call.ids["session_id"], call.query.format
    if form == "ipynb":
        reading = await call.services.notebooks.read(call.principal, session_id)
        return Download(reading.chunks, reading.size, "history.ipynb", NOTEBOOK)
    call.cancellable = True
    made = await call.services.views.view(call.principal, session_id, form)
    if form == "py":
        return Document(made, PYTHON, {"Content-Security-Policy": "sandbox"})
    return Document(made, HTML, {"Content-Security-Policy": f"sandbox; {POLICY}", "Referrer-Policy": "no-referrer"})


async def manifest(call: Call) -> Document:
    return Document(await call.services.notebooks.manifest(call.principal, call.ids["session_id"]), JSON)


def idempotency_key(header: str | None) -> str | None:
    """The header's value, bounded and printable; raises InvalidRequest."""
    if header is None:
        return None
    if not 1 <= len(header) <= MOST_KEY_CHARACTERS or not (header.isascii() and header.isprintable()):
        raise InvalidRequest(
            f"Idempotency-Key must be 1 to {MOST_KEY_CHARACTERS} printable ASCII characters", field="Idempotency-Key"
        )
    return header
