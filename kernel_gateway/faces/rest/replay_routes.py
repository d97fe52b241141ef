"""The rows of the table of routes that are about replays."""

from __future__ import annotations

from typing import Final

from kernel_gateway import errors as e
from kernel_gateway.faces.rest import replays
from kernel_gateway.faces.rest.calls import EVENTS, NOTEBOOK
from kernel_gateway.faces.rest.parameters import AnyObject
from kernel_gateway.faces.rest.route import Errors, Route
from kernel_gateway.replay_shapes import Replay, ReplayRequest
from kernel_gateway.shapes import Event

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
        replays.start,
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
        replays.show,
        "Show a replay: its verdicts so far, at its end its notebook",
        Replay,
        errors=ID,
    ),
    Route(
        "GET",
        f"{ONE}/events",
        replays.follow,
        "Follow a replay by server-sent events, from the start or after `Last-Event-ID`",
        Event,
        media=EVENTS,
        headers={"Last-Event-ID": "go on after this event"},
        errors=ID,
    ),
    Route(
        "GET",
        f"{ONE}/notebook",
        replays.notebook,
        "The notebook that came of a replay",
        AnyObject,
        media=NOTEBOOK,
        errors=(e.NotFound, e.Conflict),
    ),
    Route(
        "DELETE",
        ONE,
        replays.stop,
        "Stop a replay and end the sessions started for it",
        Replay,
        errors=(e.NotFound, e.DeadlinePassed),
    ),
)
