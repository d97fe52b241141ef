"""Endpoints of replays, and of sessions that begin as the replay of another. They translate and decide nothing."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from kernel_gateway import errors as e
from kernel_gateway.faces.rest.calls import EVENTS, NOTEBOOK, Accepted, Call, Document, Following
from kernel_gateway.faces.rest.parameters import AnyObject
from kernel_gateway.faces.rest.route import Errors, Route
from kernel_gateway.faces.rest.sse import last_event_id
from sandcell.models.replays import Replay, ReplayRequest
from sandcell.models.shapes import Event, Session


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


# The rows of the table of routes that are about replays.

ONE: Final = "/v1/replays/{replay_id}"
ID: Final[Errors] = (e.NotFound,)

START: Final[Errors] = (
    e.NotFound,
    e.UnknownEnvironment,
    e.EnvironmentUnavailable,
    e.SessionTerminated,
    e.Conflict,
    e.LimitReached,
    e.RateLimited,
    e.ShuttingDown,
)

ROUTES: Final[tuple[Route, ...]] = (
    Route(
        "POST",
        "/v1/notebooks/replay",
        start,
        "Run a notebook again and compare, cell by cell; with `wait` answer with what came of it, else with 202",
        Replay,
        body=ReplayRequest,
        headers={"Accept": "`text/event-stream`: answer with the replay's server-sent events instead"},
        more_media=(EVENTS,),
        invocation=True,
        large=True,
        accepted=True,
        errors=START,
    ),
    Route(
        "GET",
        ONE,
        show,
        "Show a replay: its verdicts so far, at its end its notebook",
        Replay,
        errors=ID,
    ),
    Route(
        "GET",
        f"{ONE}/events",
        follow,
        "Follow a replay by server-sent events, from the start or after `Last-Event-ID`",
        Event,
        media=EVENTS,
        headers={"Last-Event-ID": "go on after this event"},
        errors=ID,
    ),
    Route(
        "GET",
        f"{ONE}/notebook",
        notebook,
        "The notebook that came of a replay",
        AnyObject,
        media=NOTEBOOK,
        errors=(e.NotFound, e.Conflict),
    ),
    Route(
        "DELETE",
        ONE,
        stop,
        "Stop a replay and end the sessions started for it",
        Replay,
        errors=(e.NotFound, e.DeadlinePassed),
    ),
)
