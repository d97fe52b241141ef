"""Sessions on the data plane: start, get, list, stop. These translate and decide nothing.

A session belongs to the code interpreter that it was started from: named under another one it is not found. Sessions
that were started elsewhere, over REST say, are here too, under the environment that they have.
"""

from __future__ import annotations

import uuid
from typing import Final

from msgspec import UNSET

from kernel_gateway.errors import NotFound, WorkspaceInUse
from kernel_gateway.faces.agentcore import answers, unsupported
from kernel_gateway.faces.agentcore.calls import Call
from kernel_gateway.faces.agentcore.identifiers import make_unknown_session_error, parse_session_id
from kernel_gateway.faces.agentcore.pages import name_next_token
from kernel_gateway.faces.json_bodies import encode
from kernel_gateway.faces.responses import Response
from kernel_gateway.services.client_tokens import compute_digest
from sandcell.models.sessions import Session, StartSession

TIMEOUT_SECONDS: Final = 900
"""A session's time-to-live when none is asked for, as AgentCore has it, where so much may be asked for."""
PAGE: Final = 10


async def start_session(call: Call) -> Response:
    """The time-to-live is hard. Idleness ends a session only where our header asks for it."""
    body, identifier = call.body, call.outside.code_interpreter_identifier
    unsupported.refuse(body.certificates, body.filesystem_configurations)
    most = call.services.settings.session_timeout_max_seconds
    timeout = body.session_timeout_seconds or min(TIMEOUT_SECONDS, most)
    wanted = StartSession(
        environment=call.face.identifiers.environment(identifier),
        name=body.name or "",
        timeout_seconds=timeout,
        idle_timeout_seconds=call.outside.idle_timeout_seconds or timeout,
    )

    async def work() -> bytes:
        call.services.limits.take_invocation(call.principal)
        return encode(answers.describe_start(identifier, await _start_once(call, wanted, body.client_token)))

    digest, token = compute_digest(identifier, wanted), body.client_token
    return Response(await call.face.tokens.once(call.principal, "StartCodeInterpreterSession", token, digest, work))


async def _start_once(call: Call, wanted: StartSession, token: str | None) -> Session:
    """A new session; or the one that the same request has started, when the service ended before it could answer.

    So that it is known again its id is made of the token.
    """
    sessions = call.services.sessions
    if token is None:
        return await sessions.start(call.principal, wanted)
    session_id = str(uuid.uuid5(uuid.NAMESPACE_OID, f"{call.principal.id} {token}"))
    try:
        before = await sessions.get(call.principal, session_id)
    except NotFound:
        try:
            return await sessions.start(call.principal, wanted, session_id)
        except WorkspaceInUse:  # another gateway was asked the same and has begun it meanwhile
            before = await sessions.get(call.principal, session_id)
    return before if before.status != "TERMINATED" else await sessions.start(call.principal, wanted)


async def get_session(call: Call) -> answers.Shown:
    session = await _find_session(call)
    return answers.describe_session(call.outside.code_interpreter_identifier, session)


async def list_sessions(call: Call) -> answers.ListedSessions:
    """The sessions of one code interpreter, newest first, those that have ended among them."""
    body, identifier = call.body, call.outside.code_interpreter_identifier
    environment = await call.services.environments.reference(
        call.principal, call.face.identifiers.environment(identifier)
    )
    limit = body.max_results or PAGE
    with name_next_token():
        page = await call.services.sessions.list(
            call.principal,
            limit,
            body.next_token,
            "LIVE" if body.status == "READY" else body.status,
            environment=environment,
        )
    return answers.ListedSessions(
        items=[answers.describe_item(identifier, session) for session in page.items],
        next_token=page.next_cursor or UNSET,
    )


async def stop_session(call: Call) -> Response:
    """What clients wait for may end first, within a bound; stopping an ended session answers with when it ended."""
    identifier = call.outside.code_interpreter_identifier

    async def work() -> bytes:
        session = await _find_session(call)
        await call.face.invocations.settle(session.id, call.services.settings.agentcore_stop_wait_seconds)
        return encode(answers.describe_stop(identifier, await call.services.sessions.stop(call.principal, session.id)))

    digest = compute_digest(identifier, call.outside.session_id)
    token = call.body.client_token
    return Response(await call.face.tokens.once(call.principal, "StopCodeInterpreterSession", token, digest, work))


async def _find_session(call: Call) -> Session:
    """The session that is named, if it is the caller's and of the code interpreter that is named."""
    shown = call.outside.session_id
    call.session_id = session_id = parse_session_id(shown)
    try:
        session = await call.services.sessions.get(call.principal, session_id)
    except NotFound:
        raise make_unknown_session_error(shown) from None
    await require_of_interpreter(call, session.environment)
    return session


async def require_of_interpreter(call: Call, environment: str) -> None:
    """Raises NotFound where the session's environment is not the code interpreter that is named."""
    identifiers, shown = call.face.identifiers, call.outside.code_interpreter_identifier
    if identifiers.matches(shown, environment):
        return
    if await call.services.environments.reference(call.principal, identifiers.environment(shown)) != environment:
        raise make_unknown_session_error(call.outside.session_id)
