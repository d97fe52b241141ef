"""The answer of InvokeCodeInterpreter: held back for a while, then keep-alives while the tool runs, then its result.

Programs read the result after they have stopped the session, and catch errors around the call: so the answer begins
when the tool has ended. It begins without a result once it has been held for `agentcore_hold_seconds`, since clients
send a request again whose answer does not begin within their read timeout (60 s where nobody has changed it); one that
has been sent again is not held at all. A client that goes away ends its answer and nothing else.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Final

from kernel_gateway.errors import ShuttingDown, translate
from kernel_gateway.faces.agentcore import event_stream
from kernel_gateway.faces.agentcore.calls import Call
from kernel_gateway.faces.agentcore.invocations import Waiter
from kernel_gateway.faces.agentcore.tools import describe_failure
from kernel_gateway.faces.json_bodies import encode
from kernel_gateway.faces.responses import Response, Stream

_ENDED: Final = (
    "the service is shutting down before the tool has ended. Where sessions outlive a restart, code that waits runs"
    " after it: look at the session before you send it again"
)
IS_ERROR: Final = b',"isError":true'
"""Stands in a result's JSON as its member alone: within a text the quotes have backslashes."""


async def answer_invocation(
    call: Call, session_id: str, work: asyncio.Task[bytes], waiter: Waiter, *, hold_seconds: float, may_repeat: bool
) -> Response:
    """An answer whose head goes out when this returns; the work's result is JSON.

    Raises the GatewayError that the work ended with. `may_repeat`: the client may send the request again when the
    service ends before the work has.
    """
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(hold_seconds):
            await waiter.over.wait()
    if work.cancelled() and may_repeat:  # only the end of the service ends work without a result
        raise ShuttingDown(_ENDED)
    if work.done() and not work.cancelled():
        work.result()
    headers = {
        "Content-Type": event_stream.MEDIA_TYPE,
        "X-Accel-Buffering": "no",
        "x-amzn-code-interpreter-session-id": session_id,
    }
    return Response(Stream(_stream(call, work)), headers=headers)


async def _stream(call: Call, work: asyncio.Task[bytes]) -> AsyncIterator[bytes]:
    while not work.done():
        yield event_stream.KEEP_ALIVE
        # The work is only waited for: when the client leaves it goes on, and the same request sent again joins it.
        await asyncio.wait({work}, timeout=call.services.settings.agentcore_keep_alive_seconds)
    if work.cancelled():
        for piece in event_stream.frame_exception("internalServerException", encode({"message": _ENDED})):
            yield piece
        return
    try:
        result = work.result()
    except Exception as error:  # it could not begin, and the status is out
        result = encode(describe_failure(translate(error)))
    call.result = {
        "isError": IS_ERROR in result,
        "resultBytes": len(result),
    }  # before it goes out: its client may leave
    for piece in event_stream.frame_result(result):
        yield piece
