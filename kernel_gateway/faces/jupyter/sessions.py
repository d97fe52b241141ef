"""Endpoints of Jupyter sessions: VS Code lists live kernels by them. There is one for each session."""

from __future__ import annotations

from typing import Any

from kernel_gateway.errors import InvalidRequest, NotFound
from kernel_gateway.faces.jupyter import kernels, models
from kernel_gateway.faces.jupyter.calls import Call, within_reach
from kernel_gateway.faces.jupyter.models import Title
from kernel_gateway.faces.jupyter.requests import PutSession
from kernel_gateway.faces.responses import Response
from sandcell.models.sessions import Session

LONGEST_NAME = 200


async def list_sessions(call: Call) -> list[dict[str, Any]]:
    return [_describe(call, each) for each in await kernels.list_live_sessions(call)]


async def get_session(call: Call) -> dict[str, Any]:
    return _describe(call, await kernels.require_live(call))


async def create_session(call: Call) -> Response:
    """A document for a kernel that lives, or for a new one."""
    wanted: PutSession = call.body
    if wanted.kernel is None:
        raise InvalidRequest("a Jupyter session needs a kernel, by its id or by a kernelspec's name", field="kernel")
    session = await _find_or_start(call, wanted)
    _entitle(call, session, wanted)
    return Response(_describe(call, session), headers={"Location": f"/api/sessions/{session.id}"})


async def change_session(call: Call) -> dict[str, Any]:
    """Another title; another kernel is another session, whose model is the answer."""
    session = await kernels.require_live(call)
    wanted: PutSession = call.body
    asked = wanted.kernel
    if asked is not None and asked.id != session.id and (asked.id or asked.name):
        session = await _find_or_start(call, wanted)
    _entitle(call, session, wanted)
    return _describe(call, session)


async def delete_session(call: Call) -> None:
    await kernels.delete_kernel(call)


async def _find_or_start(call: Call, wanted: PutSession) -> Session:
    """The session of the kernel that is asked for: one that lives, or a new one for its owner."""
    kernel = wanted.kernel
    if kernel is not None and kernel.id is not None:
        session_id = within_reach(call.visitor, kernel.id)
        session = await call.services.sessions.get(call.principal, session_id)
        if session.status == "TERMINATED":
            raise NotFound("there is no such kernel: its session has ended")
        return session
    title = (wanted.path or wanted.name or "")[:LONGEST_NAME]
    return await kernels.start_session(call, kernel.name if kernel is not None else None, title)


def _entitle(call: Call, session: Session, wanted: PutSession) -> None:
    """Take what the client calls it; the holder of an attach token does not name an owner's sessions."""
    if call.visitor.attached or not (wanted.path or wanted.name or wanted.type):
        return
    before = call.face.titles.get(session.id) or models.make_title(session)
    path = wanted.path or before.path
    name = wanted.name if wanted.name is not None else before.name
    call.face.entitle(session.id, Title(path, name or path, wanted.type or before.type))


def _describe(call: Call, session: Session) -> dict[str, Any]:
    title = call.face.titles.get(session.id) or models.make_title(session)
    return models.describe_session(session.id, title, kernels.describe(call, session))
