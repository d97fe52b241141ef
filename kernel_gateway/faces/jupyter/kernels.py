"""Endpoints of kernels. A kernel is a session; its id is the session's."""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from typing import Any

from kernel_gateway.errors import (
    DeadlinePassed,
    Forbidden,
    GatewayError,
    InvalidRequest,
    NotFound,
    UnknownEnvironment,
)
from kernel_gateway.faces.jupyter import models
from kernel_gateway.faces.jupyter.calls import Call
from kernel_gateway.faces.responses import Response
from kernel_gateway.services.attach.attachments import KERNEL_LABEL
from kernel_gateway.storage.columns import MOST_ROWS
from sandcell.models.sessions import Session, StartSession

START_SECONDS = 38.0
"""JupyterLab waits 42 s for a kernel to start."""
END_SECONDS = 30.0
"""How long a deletion waits for the session's files; the end goes on by itself."""
COMMON_NAME = "python3"
"""What clients ask for that have no name to ask for."""
DEFAULT_ENVIRONMENT = "python"


async def list_kernels(call: Call) -> list[dict[str, Any]]:
    return [describe(call, each) for each in await list_live_sessions(call)]


async def get_kernel(call: Call) -> dict[str, Any]:
    """A kernel that ended by itself is shown as dead, with why; one that was stopped is gone."""
    session = await call.services.sessions.get(call.principal, call.session_id)
    if session.status != "TERMINATED":
        return describe(call, session)
    if session.ended is not None and session.ended.reason == "stopped":
        raise NotFound("there is no such kernel: its session was stopped")
    return models.describe_dead_kernel(session)


async def start_kernel(call: Call) -> Response:
    if call.body.id:
        raise InvalidRequest("a kernel's id is the service's to choose: leave it out", field="id")
    session = await start_session(call, call.body.name)
    return Response(describe(call, session), headers={"Location": f"/api/kernels/{session.id}"})


async def delete_kernel(call: Call) -> None:
    """An owner ends the session. To an attach token it says yes and does nothing: JupyterLab hangs on a refusal."""
    await require_live(call)
    if not call.visitor.attached:
        await stop_session(call, call.session_id)


async def interrupt_kernel(call: Call) -> None:
    await require_live(call)
    await call.services.sessions.interrupt(call.principal, call.session_id)


async def restart_kernel(call: Call) -> dict[str, Any]:
    await require_live(call)
    if call.visitor.attached and "restart" not in call.visitor.can:
        raise Forbidden("this attach token does not allow one to restart the kernel; ask the session's owner")
    return describe(
        call, await call.services.sessions.restart(call.principal, call.session_id, author=call.visitor.author)
    )


async def list_live_sessions(call: Call) -> list[Session]:
    """The live sessions within the visitor's reach, newest first."""
    sessions, principal = call.services.sessions, call.principal
    if call.visitor.session_id is not None:
        return [await sessions.get(principal, call.visitor.session_id)]
    found: list[Session] = []
    cursor: str | None = None
    while True:
        page = await sessions.list(principal, MOST_ROWS, cursor, "LIVE")
        found += page.items
        cursor = page.next_cursor
        if cursor is None:
            return found


async def require_live(call: Call) -> Session:
    """The session that the address names; raises NotFound, also when it has ended: then it has no kernel."""
    session = await call.services.sessions.get(call.principal, call.session_id)
    if session.status == "TERMINATED":
        raise NotFound("there is no such kernel: its session has ended")
    return session


async def start_session(call: Call, name: str | None, title: str = "") -> Session:
    """A new session for its owner, ready before the client gives up; raises DeadlinePassed, and leaves none then."""
    call.require_owner("start kernels")
    call.services.limits.take_invocation(call.principal)
    environment, kernel = await _find_kernelspec(call, name)
    session_id = str(uuid.uuid4())
    body = StartSession(environment=environment, name=title, labels={} if kernel is None else {KERNEL_LABEL: kernel})
    starting = call.services.background.spawn(_start(call, body, session_id), f"start of kernel {session_id}")
    done, _ = await asyncio.wait({starting}, timeout=START_SECONDS)
    if not done:
        call.services.background.spawn(
            call.services.sessions.stop(call.principal, session_id), f"end of kernel {session_id}"
        )
        raise DeadlinePassed(f"the kernel did not start within {START_SECONDS:g} s; try again")
    return starting.result()


async def _start(call: Call, body: StartSession, session_id: str) -> Session:
    """A session whose kernel runs, or none."""
    session = await call.services.sessions.start(call.principal, body, session_id)
    try:
        await call.services.attachments.start_declared(call.principal, session_id)
    except GatewayError:
        await call.services.sessions.stop(call.principal, session_id)
        raise
    return session


async def stop_session(call: Call, session_id: str) -> None:
    """End a session; its last flush may outlast the answer."""
    services = call.services
    ending = services.background.spawn(
        services.sessions.stop(call.principal, session_id), f"end of kernel {session_id}"
    )
    done, _ = await asyncio.wait({ending}, timeout=END_SECONDS)
    if done:
        ending.result()


def describe(call: Call, session: Session) -> dict[str, Any]:
    """A live session as a kernel."""
    attachments = call.services.attachments
    return models.describe_kernel(session, attachments.execution_state(session.id), attachments.connections(session.id))


async def _find_kernelspec(call: Call, name: str | None) -> tuple[str | None, str | None]:
    """The environment that a kernelspec's name means, and which kernel of its image; None is Python's.

    No environment is the default one, as `python3` is everywhere.
    """
    if not name or ("." not in name and name != COMMON_NAME):
        return name or None, None
    environments = call.services.environments
    heads = dict.fromkeys((name.partition(".")[0], *environments.hosts()))  # a host's may have points in its name
    for head in (name, *(each for each in heads if name.startswith(f"{each}."))):
        kernel = name[len(head) + 1 :]
        with contextlib.suppress(UnknownEnvironment):
            found = (await environments.get(call.principal, head)).id
            if not kernel or kernel in [each.name for each in await call.services.kernelspecs.of_session(found, "")]:
                return found, kernel or None
    return (None if name == COMMON_NAME else name), None
