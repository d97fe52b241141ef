"""Sessions and their notebooks. Endpoints translate and decide nothing."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any, Final

from kernel_gateway import errors as e
from kernel_gateway.faces.responses import JSON, Response
from kernel_gateway.faces.rest import conditions
from kernel_gateway.faces.rest.calls import Call
from kernel_gateway.faces.rest.parameters import AnyObject, NotebookForm, PageOf, PageOfNotes, SessionsPage
from kernel_gateway.faces.rest.resources.executions import read_idempotency_key
from kernel_gateway.faces.rest.resources.workspaces import PART, answer_reading
from kernel_gateway.faces.rest.responses import (
    EVENTS,
    HTML,
    NOTEBOOK,
    OCTETS,
    PYTHON,
    answer_document,
    answer_download,
    answer_events,
)
from kernel_gateway.faces.rest.route import Errors, Route
from kernel_gateway.faces.rest.sse import read_last_event_id
from kernel_gateway.services.start_keys import OPERATION, make_start_key
from kernel_gateway.views.page import POLICY
from kernels.notebook.chain import Manifest
from sandcell.models.executions import Event
from sandcell.models.model import Page
from sandcell.models.sessions import Checkpoint, Note, Session, StartSession, UndoRequest


async def create_session(call: Call) -> Session:
    services, principal, body = call.services, call.principal, call.body
    token = read_idempotency_key(call.headers.get("Idempotency-Key"))
    key = None if token is None else make_start_key(principal, token, body)
    if body.from_ is None and body.replay_of is None:
        return await services.sessions.start(principal, body, key=key)

    def build() -> Coroutine[Any, Any, Session]:
        start = services.replays.start_session if body.from_ is None else services.forks.start
        return start(principal, body)

    if key is None:
        return await build()

    async def work() -> bytes:
        return (await build()).id.encode()

    built = await services.client_tokens.once(principal, OPERATION, token, key.digest, work)
    return await services.sessions.get(principal, built.decode())


async def list_sessions(call: Call) -> Page[Session]:
    query = call.query
    sessions, environment = call.services.sessions, query.environment
    return await sessions.list(call.principal, query.limit, query.cursor, query.status, environment=environment)


async def get_session(call: Call) -> Session:
    return await call.services.sessions.get(call.principal, call.ids["session_id"])


async def follow_session(call: Call) -> Response:
    last = call.headers.get("Last-Event-ID")
    after = None if last is None else read_last_event_id(last)
    return answer_events(await call.services.sessions.events(call.principal, call.ids["session_id"], after))


async def stop_session(call: Call) -> Session:
    return await call.services.sessions.stop(call.principal, call.ids["session_id"])


async def interrupt_session(call: Call) -> None:
    await call.services.sessions.interrupt(call.principal, call.ids["session_id"])


async def restart_session(call: Call) -> Session:
    return await call.services.sessions.restart(call.principal, call.ids["session_id"])


async def hibernate_session(call: Call) -> Session:
    return await call.services.hibernation.hibernate(call.principal, call.ids["session_id"])


async def resume_session(call: Call) -> Session:
    return await call.services.hibernation.resume(call.principal, call.ids["session_id"])


async def create_checkpoint(call: Call) -> Checkpoint:
    return await call.services.checkpoints.create(call.principal, call.ids["session_id"])


async def list_checkpoints(call: Call) -> Page[Checkpoint]:
    query, session_id = call.query, call.ids["session_id"]
    return await call.services.checkpoints.list(call.principal, session_id, query.limit, query.cursor)


async def get_checkpoint(call: Call) -> Checkpoint:
    ids = call.ids
    return await call.services.checkpoints.get(call.principal, ids["session_id"], ids["checkpoint_id"])


async def read_checkpoint_file(call: Call) -> Response:
    wanted = conditions.Wanted(call.headers)
    session_id, checkpoint_id = call.ids["session_id"], call.ids["checkpoint_id"]
    reading = await call.services.checkpoints.read_part(call.principal, session_id, checkpoint_id, call.path, wanted)
    return await answer_reading(reading, wanted)


async def delete_checkpoint(call: Call) -> None:
    ids = call.ids
    await call.services.checkpoints.remove(call.principal, ids["session_id"], ids["checkpoint_id"])


async def undo_cells(call: Call) -> Session:
    return await call.services.undo.undo(call.principal, call.ids["session_id"], call.body)


async def get_notebook(call: Call) -> Response:
    """As it is, or as a view of it. A page holds what a sandbox put out: a browser lets nothing of it act."""
    session_id, form = call.ids["session_id"], call.query.format
    if form == "ipynb":
        reading = await call.services.notebooks.read(call.principal, session_id)
        return answer_download(reading.chunks, reading.size, "history.ipynb", NOTEBOOK)
    call.cancellable = True
    made = await call.services.views.view(call.principal, session_id, form)
    if form == "py":
        return answer_document(made, PYTHON, {"Content-Security-Policy": "sandbox"})
    return answer_document(
        made, HTML, {"Content-Security-Policy": f"sandbox; {POLICY}", "Referrer-Policy": "no-referrer"}
    )


async def list_notes(call: Call) -> Page[Note]:
    query, session_id = call.query, call.ids["session_id"]
    return await call.services.notebooks.notes(
        call.principal, session_id, query.limit, query.cursor, newest_first=query.newest_first
    )


async def get_notebook_manifest(call: Call) -> Response:
    return answer_document(await call.services.notebooks.manifest(call.principal, call.ids["session_id"]), JSON)


SESSIONS: Final = "/v1/sessions"
SESSION: Final = "/v1/sessions/{session_id}"
ID: Final[Errors] = (e.NotFound,)
LIVE: Final[Errors] = (e.NotFound, e.SessionTerminated, e.SandboxUnavailable)
KEEP: Final[Errors] = (
    *(*LIVE, e.SessionBusy, e.QuotaReached, e.SessionLimit, e.NoMemory),
    *(e.StoreUnavailable, e.NoSpace, e.ShuttingDown, e.DeadlinePassed),
)
START: Final[Errors] = (
    e.NotFound,
    e.UnknownEnvironment,
    e.EnvironmentUnavailable,
    e.AgentDetached,
    e.WorkspaceInUse,
    e.Conflict,
    e.SessionBusy,
    e.SessionLimit,
    e.RateLimited,
    e.NoSpace,
    e.SandboxUnavailable,
    e.NoMemory,
    e.StoreUnavailable,
    e.ShuttingDown,
    e.DeadlinePassed,
)

ROUTES: Final[tuple[Route, ...]] = (
    Route(
        "POST",
        SESSIONS,
        create_session,
        name="createSession",
        event="StartSession",
        summary="Start a session",
        result=Session,
        status=201,
        body=StartSession,
        headers={"Idempotency-Key": "the same key and body return the same session for a day, also once it has ended"},
        invocation=True,
        errors=(*START, e.IdempotencyConflict),
    ),
    Route(
        "GET",
        SESSIONS,
        list_sessions,
        name="listSessions",
        event="ListSessions",
        summary="List your sessions, newest first",
        result=Page[Session],
        query=SessionsPage,
    ),
    Route(
        "GET",
        SESSION,
        get_session,
        name="getSession",
        event="GetSession",
        summary="Show a session: status, generation, usage, expiry",
        result=Session,
        errors=ID,
    ),
    Route(
        "GET",
        f"{SESSION}/events",
        follow_session,
        name="followSession",
        event="FollowSession",
        summary="Follow what happens in a session by server-sent events, from now on or after `Last-Event-ID`",
        result=Event,
        media=EVENTS,
        headers={"Last-Event-ID": "go on after this event"},
        errors=ID,
    ),
    Route(
        "DELETE",
        SESSION,
        stop_session,
        name="stopSession",
        event="StopSession",
        summary="Stop a session, after its last flush",
        result=Session,
        errors=ID,
    ),
    Route(
        "POST",
        f"{SESSION}/interrupt",
        interrupt_session,
        name="interruptSession",
        event="InterruptSession",
        summary="Interrupt what runs",
        status=204,
        errors=LIVE,
    ),
    Route(
        "POST",
        f"{SESSION}/restart",
        restart_session,
        name="restartSession",
        event="RestartSession",
        summary="Start a blank kernel of a new generation",
        result=Session,
        errors=LIVE,
    ),
    Route(
        "POST",
        f"{SESSION}/hibernate",
        hibernate_session,
        name="hibernateSession",
        event="HibernateSession",
        summary="Give up the session's sandbox until its next use; `hibernated` says what is kept",
        result=Session,
        errors=(*LIVE, e.SessionBusy, e.QuotaReached, e.StoreUnavailable, e.NoSpace, e.ShuttingDown, e.DeadlinePassed),
    ),
    Route(
        "POST",
        f"{SESSION}/resume",
        resume_session,
        name="resumeSession",
        event="ResumeSession",
        summary="Wake a hibernated session, as its next use does",
        result=Session,
        errors=(*LIVE, e.SessionLimit, e.NoMemory, e.StoreUnavailable, e.ShuttingDown, e.DeadlinePassed),
    ),
    Route(
        "POST",
        f"{SESSION}/checkpoints",
        create_checkpoint,
        name="createCheckpoint",
        event="CreateCheckpoint",
        summary="Keep a session's variables and files as they are now, for forks and for undo",
        result=Checkpoint,
        status=201,
        errors=KEEP,
    ),
    Route(
        "GET",
        f"{SESSION}/checkpoints",
        list_checkpoints,
        name="listCheckpoints",
        event="ListCheckpoints",
        summary="List a session's checkpoints, oldest first",
        result=Page[Checkpoint],
        query=PageOf,
        errors=ID,
    ),
    Route(
        "GET",
        f"{SESSION}/checkpoints/{{checkpoint_id}}",
        get_checkpoint,
        name="getCheckpoint",
        event="GetCheckpoint",
        summary="Show a checkpoint: after which execution it stands, what is kept",
        result=Checkpoint,
        errors=ID,
    ),
    Route(
        "GET",
        f"{SESSION}/checkpoints/{{checkpoint_id}}/files/{{path}}",
        read_checkpoint_file,
        name="readCheckpointFile",
        event="ReadCheckpointFile",
        summary="Download a file as a checkpoint has it; `Range` is heeded (206)",
        media=OCTETS,
        headers={**conditions.RANGED, **conditions.CACHED},
        bare={206: "the range that was asked for", **conditions.SAME},
        errors=PART,
    ),
    Route(
        "DELETE",
        f"{SESSION}/checkpoints/{{checkpoint_id}}",
        delete_checkpoint,
        name="deleteCheckpoint",
        event="DeleteCheckpoint",
        summary="Remove a checkpoint",
        status=204,
        errors=ID,
    ),
    Route(
        "POST",
        f"{SESSION}/undo",
        undo_cells,
        name="undoCells",
        event="UndoCells",
        summary="Take back a session's last cells: variables and files as before them, in a new generation",
        result=Session,
        body=UndoRequest,
        invocation=True,
        errors=(*START, e.SessionTerminated, e.QuotaReached),
    ),
    Route(
        "GET",
        f"{SESSION}/notebook",
        get_notebook,
        name="getNotebook",
        event="GetNotebook",
        summary="The session's `.ipynb`; `format=html` a page of it in which nothing runs, `format=py` a plain script",
        result=AnyObject,
        query=NotebookForm,
        media=NOTEBOOK,
        more_media=(HTML, PYTHON),
        errors=(*ID, e.PayloadTooLarge, e.DeadlinePassed),
    ),
    Route(
        "GET",
        f"{SESSION}/notebook/manifest",
        get_notebook_manifest,
        name="getNotebookManifest",
        event="GetManifest",
        summary="What the notebook consists of: ids and hashes of its cells",
        result=Manifest,
        errors=ID,
    ),
    Route(
        "GET",
        f"{SESSION}/notes",
        list_notes,
        name="listNotes",
        event="ListNotes",
        summary="List what happened besides executions: new kernels and why, leases, restarts; or `newest_first`",
        result=Page[Note],
        query=PageOfNotes,
        errors=ID,
    ),
)
