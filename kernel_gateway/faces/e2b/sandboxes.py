"""The control plane: create, connect, show, list, end, lifetimes, metrics. These translate and decide nothing.

`snapshots` has what makes a sandbox of another.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any, Final, Literal, NoReturn
from urllib.parse import parse_qsl, unquote

import msgspec

from kernel_gateway.errors import Conflict, InvalidRequest, NotFound, QuotaReached, SessionBusy, UnknownEnvironment
from kernel_gateway.faces.e2b import answers
from kernel_gateway.faces.e2b.calls import Call
from kernel_gateway.faces.e2b.identifiers import HOME, TEMPLATES, choose_environment, parse_snapshot
from kernel_gateway.faces.errors import NotOffered
from kernel_gateway.faces.responses import Response
from kernel_gateway.services.replays.session_copies import Wanted
from kernel_gateway.services.sessions.live_session import LiveSession
from kernel_gateway.storage.sessions import Surroundings
from kernels.environment import Environment
from sandcell.models.sessions import Session, SessionStatus, StartSession

TIMEOUT_SECONDS: Final = 300
"""A sandbox's lifetime when none is asked for, as E2B has it; OLD of the first form of the call."""
OLD_TIMEOUT_SECONDS: Final = 15
MOST_LISTED: Final = 100
STATES: Final[dict[str, SessionStatus]] = {"running": "READY", "paused": "HIBERNATED"}
MOST_LOOKED_THROUGH: Final = 10
"""Pages of sessions that one answer of a filtered list looks through; its client asks for the next."""
MOST_VARIABLES: Final = 100
MOST_VARIABLES_BYTES: Final = 32_768
"""Names and values of the environment variables of a sandbox, or of one run or command, together."""
VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
MOST_DIGITS: Final = 12
METRIC_SECONDS: Final = 10
"""How long ago a time may be that counts as now."""
KEY: Final = re.compile(r"[a-z0-9-]{1,255}")


def check_variables(variables: dict[str, str] | None) -> dict[str, str]:
    """Environment variables that programs can have; raises InvalidRequest."""
    found = variables or {}
    size = sum(len(part.encode("utf-8", "surrogatepass")) for each in found.items() for part in each)
    if len(found) > MOST_VARIABLES or size > MOST_VARIABLES_BYTES:
        raise InvalidRequest(
            f"environment variables: at most {MOST_VARIABLES}, of {MOST_VARIABLES_BYTES:,} bytes together"
        )
    if not all(VARIABLE.fullmatch(name) and "\0" not in value for name, value in found.items()):
        raise InvalidRequest("environment variables have names of letters, digits and _, and no NUL in their values")
    return found


async def create_sandbox(call: Call) -> Response:
    return await _create(call, TIMEOUT_SECONDS)


async def create_sandbox_as_before(call: Call) -> Response:
    return await _create(call, OLD_TIMEOUT_SECONDS)


async def _create(call: Call, otherwise: int) -> Response:
    """A session whose code, commands and relative paths begin in the home; idleness does not end it."""
    body, services = call.body, call.services
    if body.mcp or body.volume_mounts:
        raise NotOffered("mcp and volumeMounts are not supported")
    services.limits.take_invocation(call.principal)
    timeout, variables = body.timeout or otherwise, check_variables(body.env_vars)
    name = parse_snapshot(body.template_id)
    snapshot = None if name in TEMPLATES else services.session_copies.find_snapshot(call.principal, name)
    if snapshot is not None:
        session = await _begin_from(call, snapshot, timeout, variables)
    else:
        session = await _begin(call, timeout, variables)
    return Response(await describe(call, session))


async def _begin(call: Call, timeout: int, variables: dict[str, str]) -> Session:
    services, body = call.services, call.body
    environment = choose_environment(body.template_id, services.settings.e2b_environment)
    try:
        _require_network(await services.environments.find(call.principal.id, environment), environment, body)
    except UnknownEnvironment as error:
        raise InvalidRequest(f"templateID: {error.message}") from None
    wanted = StartSession(
        environment=environment,
        timeout_seconds=timeout,
        idle_timeout_seconds=services.settings.session_timeout_max_seconds,
        labels=body.metadata or {},
    )
    surroundings = Surroundings(HOME, variables, hibernates=bool(body.auto_pause))

    async def start(session_id: str | None) -> Session:
        return await services.sessions.start(call.principal, wanted, session_id, surroundings=surroundings)

    return await _start_once(call, start)


async def _begin_from(call: Call, snapshot: LiveSession, timeout: int, variables: dict[str, str]) -> Session:
    """As a snapshot is, with more environment variables."""
    services, body, was = call.services, call.body, snapshot.surroundings or Surroundings()
    environment = await services.environments.of_session(snapshot.row.environment)
    _require_network(environment, environment.name, body)
    variables = check_variables(was.variables | variables)
    surroundings = msgspec.structs.replace(was, variables=variables, hibernates=bool(body.auto_pause))

    async def start(session_id: str | None) -> Session:
        wanted = build_wanted(call, session_id, timeout, labels=body.metadata or {}, surroundings=surroundings)
        work = services.session_copies.start(call.principal, snapshot.id, wanted)
        return await services.background.carry_out(work, "start from a snapshot")

    return await _start_once(call, start)


def build_wanted(call: Call, session_id: str | None, lifetime_seconds: int, **more: Any) -> Wanted:
    """A copy of a sandbox, which is to run at once."""
    session_id = session_id or str(uuid.uuid4())
    name, kept_seconds = f"session-{session_id[:8]}", float(call.services.settings.state_ttl_seconds)
    return Wanted(session_id, name, kept_seconds=kept_seconds, lifetime_seconds=lifetime_seconds, **more)


async def _start_once(call: Call, start: Callable[[str | None], Awaitable[Session]]) -> Session:
    """What `start` makes; with the key of a request that has made one already, that one."""
    key = call.headers.get("Idempotency-Key")
    if key is None:
        return await start(None)
    if not KEY.fullmatch(key):
        raise InvalidRequest("Idempotency-Key has 1 to 255 of a-z, 0-9 and -")
    session_id = str(uuid.uuid5(uuid.NAMESPACE_OID, f"e2b {call.principal.id} {key}"))
    return await call.services.sessions.once(call.principal, session_id, lambda: start(session_id))


def _require_network(environment: Environment, name: str, body: Any) -> None:
    """Raises for what the environment does not give: a network is chosen with the environment, not with the sandbox."""
    if body.allow_internet_access is False and _reaches_internet(environment):
        raise NotOffered(
            f"allow_internet_access: the environment {name} has a network; choose one in mode SANDBOX as the template"
        )
    if body.network and (body.network.get("allowOut") or body.network.get("denyOut") or body.network.get("rules")):
        raise NotOffered("network: what a sandbox reaches is declared with its environment; choose one as the template")


def _reaches_internet(environment: Environment) -> bool:
    return environment.network.mode != "SANDBOX"


async def describe(call: Call, session: Session) -> dict[str, Any]:
    """The answer to a client that begins to use one."""
    token = await call.services.sandbox_tokens.give(call.caller.credential_id, session.id)
    return answers.describe_sandbox(session, token)


async def connect_sandbox(call: Call) -> Response:
    """A live sandbox, which from now on has at least so much time left; one that is paused is resumed, and has that.

    Without its memory its kernel is a blank one.
    """
    timeout = call.body.timeout or TIMEOUT_SECONDS
    services, session_id = call.services, call.session_id
    paused = (await require_sandbox(call)).status == "HIBERNATED"
    if paused:
        await services.hibernation.resume(call.principal, session_id)
        if call.body.memory is False:
            await services.sessions.restart(call.principal, session_id)
    session = await services.sessions.set_lifetime(call.principal, session_id, timeout, only_later=not paused)
    return Response(await describe(call, session), status=201 if paused else None)


async def pause_sandbox(call: Call) -> None:
    """Raises Conflict, as clients expect, for one that is paused already, and for nothing else."""
    if (await require_sandbox(call)).status == "HIBERNATED":
        raise Conflict("the sandbox is paused already")
    try:
        await call.services.hibernation.hibernate(call.principal, call.session_id)
    except (SessionBusy, QuotaReached) as error:
        raise InvalidRequest(error.message) from None


async def require_sandbox(call: Call) -> Session:
    """The caller's sandbox; raises NotFound, for a snapshot too, and SessionTerminated."""
    live = await call.services.registry.require(call.principal, call.session_id)
    if live.is_snapshot:
        raise NotFound("The sandbox was not found: this is a snapshot")
    return await call.services.sessions.get(call.principal, call.session_id)


async def get_sandbox(call: Call) -> Response:
    session = await require_sandbox(call)
    environment = await call.services.environments.of_session(session.environment)
    shown = answers.detail_sandbox(session, environment.resources, internet=_reaches_internet(environment))
    live = call.services.registry.find(call.principal, call.session_id)
    if live is not None and live.surroundings is not None and live.surroundings.hibernates:
        shown["lifecycle"]["onTimeout"] = "pause"
    if call.caller.may("run"):
        shown["envdAccessToken"] = await call.services.sandbox_tokens.give(call.caller.credential_id, session.id)
    return Response(shown)


async def list_sandboxes(call: Call) -> Response:
    """One page of the caller's live sessions: those that fit the query, of any state unless it says."""
    return await _list(call, "running,paused")


async def list_sandboxes_as_before(call: Call) -> Response:
    return await _list(call, "running")


async def _list(call: Call, otherwise: str) -> Response:
    states = set(call.query.get("state", otherwise).split(",")) & STATES.keys()
    status = STATES[states.pop()] if len(states) == 1 else "LIVE"
    fits = _read_filter(call)
    if not states and status == "LIVE":
        return Response([])
    found, headers = await find_sessions(call, status, lambda each: each.snapshot_of is None and fits(each))
    return Response([await _list_one(call, each) for each in found], headers=headers)


async def find_sessions(
    call: Call, status: SessionStatus | Literal["LIVE"], fits: Callable[[Session], bool]
) -> tuple[list[Session], dict[str, str]]:
    """The page that is asked for of the caller's sessions that fit, and what names the next one."""
    order = call.query.get("order", "desc")
    if order not in ("asc", "desc"):
        raise InvalidRequest("order is asc or desc")
    limit = _read_limit(call.query.get("limit", ""))
    found: list[Session] = []
    token = cursor = call.query.get("nextToken") or None
    for _ in range(MOST_LOOKED_THROUGH):
        full = len(found) >= limit  # then it is only looked whether another one fits
        page = await call.services.sessions.list(
            call.principal, MOST_LISTED if full else limit - len(found), cursor, status, newest_first=order == "desc"
        )
        fitting, cursor = list(filter(fits, page.items)), page.next_cursor
        if full and fitting:
            break
        found += fitting
        if cursor is None or not full:
            token = cursor
        if cursor is None:
            break
    return found, {} if token is None else {"X-Next-Token": token}


def _read_filter(call: Call) -> Callable[[Session], bool]:
    metadata = _read_metadata(call.query.get("metadata", ""))
    template = call.query.get("template", "")
    environment = choose_environment(template, call.services.settings.e2b_environment) if template else ""
    after = _read_time(call.query.get("startedAfter", ""))

    def fits(session: Session) -> bool:
        started = datetime.fromisoformat(session.created_at)
        return (
            metadata.items() <= session.labels.items()
            and environment in ("", session.environment)
            and (after is None or started >= after)
        )

    return fits


def _read_time(text: str) -> datetime | None:
    if not text:
        return None
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise InvalidRequest("startedAfter is no time of RFC 3339") from None
    return found if found.tzinfo else found.replace(tzinfo=UTC)


async def _list_one(call: Call, session: Session) -> dict[str, Any]:
    environment = await call.services.environments.of_session(session.environment)
    return answers.list_sandbox(session, environment.resources)


def _read_limit(text: str) -> int:
    if not text:
        return MOST_LISTED
    if not text.isdecimal() or not 1 <= int(text[:4]) <= MOST_LISTED:
        raise InvalidRequest(f"limit is 1 to {MOST_LISTED}")
    return int(text)


def _read_metadata(text: str) -> dict[str, str]:
    """Clients encode each key and value, then join them, and encode all of it again."""
    if not text:
        return {}
    pairs = parse_qsl(text if "=" in text else unquote(text), keep_blank_values=True, max_num_fields=50)
    return {unquote(name): unquote(value) for name, value in pairs}


async def kill_sandbox(call: Call) -> None:
    await require_sandbox(call)
    await call.services.sessions.stop(call.principal, call.session_id, "its client ended it")


async def set_timeout(call: Call) -> None:
    """The sandbox ends so many seconds from now."""
    seconds = call.body.timeout
    if seconds is None:
        raise InvalidRequest("timeout: say how many seconds")
    await call.services.sessions.set_lifetime(call.principal, call.session_id, max(seconds, 1))


async def refresh_sandbox(call: Call) -> None:
    """The sandbox has at least so much time left."""
    seconds = call.body.duration or OLD_TIMEOUT_SECONDS
    await call.services.sessions.set_lifetime(call.principal, call.session_id, seconds, only_later=True)


async def get_metrics(call: Call) -> Response:
    """What it uses now, if that is in the time asked for: a history is not kept."""
    session = await require_sandbox(call)
    now, (start, end) = call.services.clock.now(), (call.query.get(each, "") for each in ("start", "end"))
    if not all(not text or (text.isdecimal() and len(text) <= MOST_DIGITS) for text in (start, end)):
        raise InvalidRequest("start and end are seconds since 1970")
    if int(start or 0) > now or int(end or now) < now - METRIC_SECONDS:
        return Response([])
    environment = await call.services.environments.of_session(session.environment)
    return Response([answers.describe_metric(session, environment.resources, now)])


async def refuse(call: Call) -> NoReturn:
    """Of what E2B has and Sandcell has not; of a sandbox only to those whose it is."""
    if call.session_id:
        await require_sandbox(call)
    raise NotOffered(
        "changes of the network are not supported: what a sandbox reaches is declared with its environment"
    )
