"""The answer of InvokeCodeInterpreter: keep-alives while the tool runs, then its result.

The headers and a first keep-alive go out before the tool begins, so that a client's read timeout never makes it send
the request again. A client that goes away ends its stream and nothing else.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Final

from kernel_gateway.faces.agentcore import event_stream
from kernel_gateway.faces.agentcore.calls import Call
from kernel_gateway.faces.json_bodies import encode
from kernel_gateway.faces.responses import Response, Stream

_ENDED: Final = encode(
    {
        "message": "the service is shutting down before the tool has ended. Where sessions outlive a restart, code that"
        " waits runs after it: look at the session before you send it again"
    }
)
IS_ERROR: Final = b',"isError":true'
"""Stands in a result's JSON as its member alone: within a text the quotes have backslashes."""


def answer_invocation(call: Call, session_id: str, start: Callable[[], asyncio.Task[bytes]]) -> Response:
    """An answer whose headers go out first; `start` then begins or joins the work, whose result is JSON."""
    headers = {
        "Content-Type": event_stream.MEDIA_TYPE,
        "X-Accel-Buffering": "no",
        "x-amzn-code-interpreter-session-id": session_id,
    }
    return Response(Stream(_stream(call, start)), headers=headers)


async def _stream(call: Call, start: Callable[[], asyncio.Task[bytes]]) -> AsyncIterator[bytes]:
    yield event_stream.KEEP_ALIVE
    work = start()
    while not work.done():
        # The work is only waited for: when the client leaves it goes on, and the same request sent again joins it.
        await asyncio.wait({work}, timeout=call.services.settings.agentcore_keep_alive_seconds)
        if not work.done():
            yield event_stream.KEEP_ALIVE
    if work.cancelled():  # only the end of the service ends work without a result
        for piece in event_stream.frame_exception("internalServerException", _ENDED):
            yield piece
        return
    result = work.result()
    call.result = {
        "isError": IS_ERROR in result,
        "resultBytes": len(result),
    }  # before it goes out: its client may leave
    for piece in event_stream.frame_result(result):
        yield piece
