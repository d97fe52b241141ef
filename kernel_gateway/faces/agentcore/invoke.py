"""InvokeCodeInterpreter: what is refused, and the tool's run, which is never cancelled.

What keeps the tool from beginning is an HTTP error: who calls, what the arguments lack, whether the session takes work.
What goes wrong in the tool is a result.
"""

from __future__ import annotations

import hashlib
from typing import Final

from kernel_gateway.errors import NotFound, PayloadTooLarge, SessionTerminated
from kernel_gateway.faces.agentcore.calls import Call
from kernel_gateway.faces.agentcore.identifiers import make_unknown_session_error, parse_session_id
from kernel_gateway.faces.agentcore.invocation_stream import answer_invocation
from kernel_gateway.faces.agentcore.sessions import require_of_interpreter
from kernel_gateway.faces.agentcore.tools import MOST_PAYLOAD_BYTES, Invocation, Tool, find_tool
from kernel_gateway.faces.json_bodies import encode
from kernel_gateway.faces.responses import Response
from kernel_gateway.services.admission.fair_shares import Share

QUEUED: Final = "executeCode"
"""The tool whose work waits in the session's queue."""
REPEATABLE: Final = frozenset({"getTask", "listFiles", "readFiles"})
"""Tools that change nothing."""
RESULT_ROOM: Final = 2
"""A large result is in memory as it was read, and as the JSON that is sent."""


async def invoke(call: Call) -> Response:
    """Admit the call, and begin the work or join it; the memory that the body takes is then the work's."""
    shown, name = call.outside.session_id, call.body.name
    call.session_id = session_id = parse_session_id(shown)
    arguments, call.body = call.body.arguments, None
    repeated = _hash_request(call)
    key = (call.principal.id, session_id, repeated) if repeated else None
    tool = find_tool(name, arguments)
    if call.face.invocations.find(key) is None:
        _require_size(arguments.code or "", call.services.settings.code_bytes)
        await _admit(call, session_id, name)

    async def room() -> None:
        await call.take_room(RESULT_ROOM * MOST_PAYLOAD_BYTES)

    invocation = Invocation(call.services, call.principal, session_id, arguments, repeated, call.face.figures, room)

    invocations, repeatable = call.face.invocations, name in REPEATABLE
    joined = invocations.find(key) is not None
    work = invocations.run(key, lambda: _carry_out(call, tool, invocation, call.hand_over()), repeatable=repeatable)
    waiter = call.wait_for(session_id, work)
    # Who asks again has waited as long as it does.
    hold_seconds = 0.0 if joined else call.services.settings.agentcore_hold_seconds
    may_repeat = repeatable or name == QUEUED
    return await answer_invocation(call, shown, work, waiter, hold_seconds=hold_seconds, may_repeat=may_repeat)


def _hash_request(call: Call) -> str:
    """The same for the same request sent again by a client, which then keeps its own id of the invocation."""
    if not call.invocation_id:
        return ""
    return hashlib.sha256(f"{call.body_sha256} {call.invocation_id}".encode()).hexdigest()


def _require_size(code: str, most_bytes: int) -> None:
    """Raises PayloadTooLarge for longer code: nothing has run, so it is an error of the request."""
    if len(code) * 4 > most_bytes and len(code.encode(errors="surrogatepass")) > most_bytes:
        raise PayloadTooLarge(f"arguments.code has more than {most_bytes:,} bytes", field="arguments.code")


async def _admit(call: Call, session_id: str, name: str) -> None:
    """Raises what keeps the session from taking the call now."""
    services = call.services
    services.readiness.require_accepting()
    try:
        live = await services.registry.require(call.principal, session_id)
    except SessionTerminated as error:
        ended = error.details.get("detail") or error.message
        raise NotFound(f"the session {call.outside.session_id} has ended ({ended}): start another") from None
    except NotFound:
        raise make_unknown_session_error(call.outside.session_id) from None
    await require_of_interpreter(call, live.row.environment)
    if name == QUEUED:
        live.require_room(services.settings.queue_length)
    services.limits.take_invocation(call.principal)


async def _carry_out(call: Call, tool: Tool, invocation: Invocation, reservation: Share | None) -> bytes:
    """The result's JSON; raises what kept the tool from beginning."""
    payload = b""
    try:
        payload = encode(await tool(invocation))
    finally:
        if reservation is not None:
            reservation.release()
        call.end_work(len(payload))
    return payload
