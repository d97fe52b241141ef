"""Endpoints of replays, and of sessions that begin as the replay of another. They translate and decide nothing."""

from __future__ import annotations

from typing import Any

import msgspec

from kernel_gateway.faces.rest.calls import EVENTS, NOTEBOOK, Accepted, Call, Document, Following
from kernel_gateway.faces.rest.sse import last_event_id
from kernel_gateway.replay_shapes import Replay, ReplayRequest
from kernel_gateway.shapes import Session


async def begin(call: Call) -> Session:
    services = call.services
    if call.body.replay_of is not None:
        return await services.replays.start_session(call.principal, call.body)
    return await services.sessions.start(call.principal, call.body)


async def start(call: Call) -> Replay | Accepted | Following:
    """Begin, then stream, stay for the end, or answer at once. A caller who leaves meanwhile stops nothing."""
    replays, request = call.services.replays, call.body
    call.body = _without_notebook(request)
    replay = await replays.start(call.principal, request)
    call.forget_body()
    if _wants_events(call.headers.get("Accept")):
        call.cancellable = True
        return Following(await replays.events(call.principal, replay.id))
    if not request.wait:
        return Accepted(replay)
    call.cancellable = True
    return await replays.wait(call.principal, replay.id)


async def show(call: Call) -> Replay:
    return await call.services.replays.get(call.principal, call.ids["replay_id"])


async def follow(call: Call) -> Following:
    after = last_event_id(call.headers.get("Last-Event-ID"))
    return Following(await call.services.replays.events(call.principal, call.ids["replay_id"], after))


async def notebook(call: Call) -> Document:
    return Document(await call.services.replays.notebook(call.principal, call.ids["replay_id"]), NOTEBOOK)


async def stop(call: Call) -> Replay:
    return await call.services.replays.stop(call.principal, call.ids["replay_id"])


def _without_notebook(request: ReplayRequest) -> dict[str, Any]:
    """What the audit log is told of the request when it is over: nobody keeps the notebook until then."""
    return msgspec.structs.asdict(request) | {"notebook": {"bytes": len(memoryview(request.notebook))}}


def _wants_events(accept: str | None) -> bool:
    """Whether the caller asks for server-sent events and for nothing else first."""
    return (accept or "").split(",")[0].split(";")[0].strip().lower() == EVENTS
