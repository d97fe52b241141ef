"""Replays of notebooks. Endpoints translate and decide nothing."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from kernel_gateway import errors as e
from kernel_gateway.faces.responses import Response
from kernel_gateway.faces.rest.calls import Call
from kernel_gateway.faces.rest.parameters import AnyObject
from kernel_gateway.faces.rest.responses import EVENTS, NOTEBOOK, answer_accepted, answer_document, answer_events
from kernel_gateway.faces.rest.route import Errors, Route
from kernel_gateway.faces.rest.sse import read_last_event_id
from sandcell.models.executions import Event
from sandcell.models.replays import Replay, ReplayRequest


async def create_replay(call: Call) -> Replay | Response:
    """Begin, then stream, stay for the end, or answer at once. A caller who leaves meanwhile stops nothing."""
    replays, request = call.services.replays, call.body
    call.body = _omit_notebook(request)
    replay = await replays.start(call.principal, request)
    call.forget_body()
    if _wants_events(call.headers.get("Accept")):
        call.cancellable = True
        return answer_events(await replays.events(call.principal, replay.id))
    if not request.wait:
        return answer_accepted(replay)
    call.cancellable = True
    return await replays.wait(call.principal, replay.id)


async def get_replay(call: Call) -> Replay:
    return await call.services.replays.get(call.principal, call.ids["replay_id"])


async def follow_replay(call: Call) -> Response:
    after = read_last_event_id(call.headers.get("Last-Event-ID"))
    return answer_events(await call.services.replays.events(call.principal, call.ids["replay_id"], after))


async def get_replay_notebook(call: Call) -> Response:
    return answer_document(await call.services.replays.notebook(call.principal, call.ids["replay_id"]), NOTEBOOK)


async def stop_replay(call: Call) -> Replay:
    return await call.services.replays.stop(call.principal, call.ids["replay_id"])


def _omit_notebook(request: ReplayRequest) -> dict[str, Any]:
    """What the audit log keeps of the request, at its end: the notebook itself is not in memory until then."""
    return msgspec.structs.asdict(request) | {"notebook": {"bytes": len(memoryview(request.notebook))}}


def _wants_events(accept: str | None) -> bool:
    """Whether the caller asks for server-sent events and for nothing else first."""
    return (accept or "").split(",")[0].split(";")[0].strip().lower() == EVENTS


REPLAY: Final = "/v1/replays/{replay_id}"
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
        create_replay,
        name="createReplay",
        event="StartReplay",
        summary=(
            "Run a notebook again and compare, cell by cell; with `wait` answer with what came of it, else with 202"
        ),
        result=Replay,
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
        REPLAY,
        get_replay,
        name="getReplay",
        event="GetReplay",
        summary="Show a replay: its verdicts so far, at its end its notebook",
        result=Replay,
        errors=ID,
    ),
    Route(
        "GET",
        f"{REPLAY}/events",
        follow_replay,
        name="followReplay",
        event="FollowReplay",
        summary="Follow a replay by server-sent events, from the start or after `Last-Event-ID`",
        result=Event,
        media=EVENTS,
        headers={"Last-Event-ID": "go on after this event"},
        errors=ID,
    ),
    Route(
        "GET",
        f"{REPLAY}/notebook",
        get_replay_notebook,
        name="getReplayNotebook",
        event="GetReplayNotebook",
        summary="The notebook that came of a replay",
        result=AnyObject,
        media=NOTEBOOK,
        errors=(e.NotFound, e.Conflict),
    ),
    Route(
        "DELETE",
        REPLAY,
        stop_replay,
        name="stopReplay",
        event="StopReplay",
        summary="Stop a replay and end the sessions started for it",
        result=Replay,
        errors=(e.NotFound, e.DeadlinePassed),
    ),
)
