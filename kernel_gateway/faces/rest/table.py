"""The one table of the REST face: tornado's routes, the OpenAPI document and the docs are made from it.

An address is written with its parameters in braces; `{path}` comes last and takes the rest, slashes included.
"""

from __future__ import annotations

from kernel_gateway import errors as e
from kernel_gateway.faces import errors as r
from kernel_gateway.faces.rest import operations
from kernel_gateway.faces.rest.calls import EVENTS, HTML, JSON, NOTEBOOK, OCTETS, PYTHON, Call, Document
from kernel_gateway.faces.rest.parameters import (
    AnyObject,
    EnvironmentsPage,
    Followed,
    Health,
    Listing,
    NotebookForm,
    PageOf,
    Removal,
    SessionsPage,
)
from kernel_gateway.faces.rest.resources import administration as administration_routes
from kernel_gateway.faces.rest.resources import attaching, environments, files, leases, replays, sessions
from kernel_gateway.faces.rest.resources import datasets as dataset_routes
from kernel_gateway.faces.rest.resources import durable as durable_routes
from kernel_gateway.faces.rest.resources import inspection as inspection_routes
from kernel_gateway.faces.rest.resources import replays as replay_routes
from kernel_gateway.faces.rest.resources import tenants as tenant_routes
from kernel_gateway.faces.rest.resources import usage as usage_routes
from kernel_gateway.faces.rest.route import Errors, Route
from kernels.notebook.chain import Manifest
from sandcell.models.attach import AttachToken, CreateAttachToken
from sandcell.models.environments import (
    AgentInfo,
    AttachAgents,
    ChangeTags,
    CreateEnvironment,
    Dependents,
    Moved,
    PutAgent,
)
from sandcell.models.shapes import (
    Command,
    CommandRequest,
    EnvironmentInfo,
    Event,
    Execution,
    FileEntry,
    Page,
    Session,
    StartSession,
    Submission,
)
from sandcell.models.workspaces import Removed


async def openapi(call: Call) -> Document:
    from kernel_gateway.faces.rest.openapi import document  # noqa: PLC0415 - it is made from this table

    return Document(document(call.services.settings), JSON)


ID: Errors = (e.NotFound,)
ENVIRONMENT: Errors = (e.UnknownEnvironment,)
OWN: Errors = (*ENVIRONMENT, e.Forbidden)
LIVE: Errors = (e.NotFound, e.SessionTerminated, e.SandboxUnavailable)
START: Errors = (
    e.NotFound,
    e.UnknownEnvironment,
    e.EnvironmentUnavailable,
    e.AgentDetached,
    e.WorkspaceInUse,
    e.SessionLimit,
    e.RateLimited,
    e.NoSpace,
    e.SandboxUnavailable,
    e.StoreUnavailable,
    e.ShuttingDown,
    e.DeadlinePassed,
)
RUN: Errors = (
    *LIVE,
    e.SessionBusy,
    e.GenerationMismatch,
    e.IdempotencyConflict,
    e.QueueFull,
    e.RateLimited,
    e.NoSpace,
    e.WorkspaceRestoring,
    e.ShuttingDown,
)
FILE: Errors = (*LIVE, e.WorkspaceRestoring, r.InvalidPath, e.FileChanged, e.Conflict, e.DeadlinePassed)
ROOM: Errors = (e.LimitReached, e.NoSpace)

S = "/v1/sessions"
ONE = "/v1/sessions/{session_id}"
RUNS = "/v1/sessions/{session_id}/executions"
RUN_ONE = "/v1/sessions/{session_id}/executions/{execution_id}"
HOLDS = leases.HOLDS
ATTACH = "/v1/sessions/{session_id}/attach-tokens"
TASK = "/v1/sessions/{session_id}/tasks/{task_id}"
LIVE_FILES = "/v1/sessions/{session_id}/files"
E = "/v1/environments"
E_ONE = "/v1/environments/{environment_id}"
A_ONE = "/v1/agents/{agent_id}"
KEY = {"Idempotency-Key": "the same key and body return the same execution: code never runs twice on a retry"}
LAST = {"Last-Event-ID": "go on after this event"}

TABLE: tuple[Route, ...] = (
    Route("POST", S, replays.begin, "Start a session", Session, 201, StartSession, invocation=True, errors=START),
    Route("GET", S, sessions.index, "List your sessions, newest first", Page[Session], query=SessionsPage),
    Route("GET", ONE, sessions.show, "Show a session: status, generation, usage, expiry", Session, errors=ID),
    Route("DELETE", ONE, sessions.stop, "Stop a session, after its last flush", Session, errors=ID),
    Route("POST", f"{ONE}/interrupt", sessions.interrupt, "Interrupt what runs", status=204, errors=LIVE),
    Route("POST", f"{ONE}/restart", sessions.restart, "Start a blank kernel of a new generation", Session, errors=LIVE),
    Route(
        "POST",
        RUNS,
        sessions.execute,
        "Run code; with `wait` answer with the outcome, else with 202",
        Execution,
        body=Submission,
        headers={**KEY, **HOLDS},
        invocation=True,
        accepted=True,
        errors=RUN,
    ),
    Route("GET", RUNS, sessions.executions, "List executions, oldest first", Page[Execution], query=PageOf, errors=ID),
    Route("GET", RUN_ONE, sessions.show_execution, "Show an execution", Execution, errors=ID),
    Route(
        "GET",
        f"{RUN_ONE}/events",
        sessions.follow_execution,
        "Follow an execution by server-sent events, from the start or after `Last-Event-ID`",
        Event,
        query=Followed,
        media=EVENTS,
        headers=LAST,
        errors=ID,
    ),
    Route(
        "POST", f"{RUN_ONE}/interrupt", sessions.interrupt_execution, "Interrupt an execution", Execution, errors=LIVE
    ),
    Route(
        "POST",
        f"{ONE}/commands",
        sessions.run_command,
        "Run a shell command; with `background` answer with a task and 202",
        Command,
        body=CommandRequest,
        headers=HOLDS,
        invocation=True,
        accepted=True,
        errors=(*LIVE, e.SessionBusy, e.RateLimited, e.DeadlinePassed, e.ShuttingDown),
    ),
    Route("GET", TASK, sessions.show_task, "Show a background task and its output so far", Command, errors=LIVE),
    Route("DELETE", TASK, sessions.stop_task, "Stop a background task", Command, errors=LIVE),
    Route("GET", LIVE_FILES, files.index, "List live files", Page[FileEntry], query=Listing, errors=FILE),
    Route("GET", f"{LIVE_FILES}/{{path}}", files.read, "Download a live file", media=OCTETS, errors=FILE),
    Route(
        "PUT",
        f"{LIVE_FILES}/{{path}}",
        files.write,
        "Upload a live file, whole or not at all; directories are made",
        FileEntry,
        uploads=True,
        errors=(*FILE, e.NoSpace),
    ),
    Route(
        "DELETE",
        f"{LIVE_FILES}/{{path}}",
        files.remove,
        "Remove a live file or directory; with `dry_run` only say what would be removed",
        status=204,
        query=Removal,
        rehearsal=Removed,
        errors=FILE,
    ),
    Route(
        "GET",
        f"{ONE}/notebook",
        sessions.notebook,
        "The session's `.ipynb`; `format=html` a page of it in which nothing runs, `format=py` a plain script",
        AnyObject,
        query=NotebookForm,
        media=NOTEBOOK,
        more_media=(HTML, PYTHON),
        errors=(*ID, e.PayloadTooLarge, e.DeadlinePassed),
    ),
    Route(
        "GET",
        f"{ONE}/notebook/manifest",
        sessions.manifest,
        "What the notebook consists of: ids and hashes of its cells",
        Manifest,
        errors=ID,
    ),
    Route(
        "POST",
        ATTACH,
        attaching.create,
        "Create a token that lets a person's Jupyter client attach; the answer alone carries it",
        AttachToken,
        201,
        CreateAttachToken,
        invocation=True,
        errors=(*LIVE, e.QuotaReached, e.RateLimited),
    ),
    Route("GET", ATTACH, attaching.index, "List a session's attach tokens", Page[AttachToken], query=PageOf, errors=ID),
    Route("DELETE", f"{ATTACH}/{{token_id}}", attaching.revoke, "Revoke an attach token", AttachToken, errors=ID),
    *inspection_routes.ROUTES,
    *replay_routes.ROUTES,
    *leases.ROUTES,
    *durable_routes.ROUTES,
    *dataset_routes.ROUTES,
    *usage_routes.ROUTES,
    Route(
        "POST",
        E,
        environments.create,
        "Make an environment of your own",
        EnvironmentInfo,
        201,
        CreateEnvironment,
        errors=(e.Conflict, e.QuotaReached),
    ),
    Route(
        "GET",
        E,
        environments.index,
        "List environments: the host's, then those that you made",
        Page[EnvironmentInfo],
        query=EnvironmentsPage,
    ),
    Route("GET", E_ONE, environments.show, "Show an environment by id or name", EnvironmentInfo, errors=ENVIRONMENT),
    Route(
        "DELETE",
        E_ONE,
        environments.delete,
        "Delete an environment; refused while agents or live sessions need it",
        EnvironmentInfo,
        errors=(*OWN, e.HasDependents),
    ),
    Route(
        "POST",
        f"{E_ONE}/tags",
        environments.change_tags,
        "Remove and set tags of an environment",
        EnvironmentInfo,
        body=ChangeTags,
        errors=OWN,
    ),
    Route(
        "GET",
        f"{E_ONE}/dependents",
        environments.dependents,
        "Who needs an environment: your agents and live sessions",
        Dependents,
        errors=ENVIRONMENT,
    ),
    Route(
        "POST",
        f"{E_ONE}/detach",
        environments.detach,
        "Detach all your agents from an environment",
        Moved,
        errors=ENVIRONMENT,
    ),
    Route(
        "POST",
        f"{E_ONE}/attach",
        environments.attach,
        "Attach all your agents again that were detached from this environment, or from another",
        Moved,
        body=AttachAgents,
        errors=ENVIRONMENT,
    ),
    Route("GET", "/v1/agents", environments.agents, "List your agents", Page[AgentInfo], query=PageOf),
    Route("GET", A_ONE, environments.show_agent, "Show an agent", AgentInfo, errors=ID),
    Route(
        "PUT",
        A_ONE,
        environments.put_agent,
        "Register an agent with its environment, or replace what is said of it",
        AgentInfo,
        body=PutAgent,
        errors=(*ENVIRONMENT, e.QuotaReached),
    ),
    Route("DELETE", A_ONE, environments.delete_agent, "Forget an agent; its sessions go on", status=204, errors=ID),
    *administration_routes.ROUTES,
    *tenant_routes.ROUTES,
    Route("GET", "/v1/openapi.json", openapi, "This interface as OpenAPI 3.1", AnyObject, public=True),
    Route("GET", "/healthz", operations.healthz, "Whether the process answers", Health, public=True),
    Route(
        "GET",
        "/readyz",
        operations.readyz,
        "Whether new work is taken",
        Health,
        public=True,
        errors=(e.ShuttingDown,),
    ),
)


def documented() -> list[tuple[str, str, str]]:
    """Method, address and summary of every route, for the docs."""
    return [(route.method, route.path, route.summary) for route in TABLE]


def any_route(route: Route) -> Errors:
    """What any such route may raise, whatever it does."""
    common: Errors = (e.InvalidRequest, r.MethodNotAllowed, e.InternalError, r.HeadTooSlow, r.HeadTooLarge)
    common += (r.TooManyConnections,)
    if not route.public:
        common += (e.Unauthorized, e.ScopeMissing, e.RateLimited)
    if route.body is not None:
        common += (r.MalformedJson, r.UnsupportedMediaType, e.PayloadTooLarge, r.BodyTooSlow, *ROOM)
    if route.uploads:
        common += (e.PayloadTooLarge, r.BodyTooSlow, *ROOM)
    return common
