"""The stream that answers an invocation, and what the audit log gets of a result that is not sent to its end."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

from kernel_gateway.faces.agentcore.invocation_stream import answer_invocation
from kernel_gateway.faces.responses import Stream, close_iterator
from kernel_gateway.settings import Settings

RESULT = b'{"content":[],"isError":true}'


def test_a_result_is_recorded_also_when_the_client_leaves_while_it_is_sent() -> None:
    call: Any = SimpleNamespace(services=SimpleNamespace(settings=Settings()), result=None)

    async def work() -> bytes:
        return RESULT

    async def scene() -> None:
        stream = answer_invocation(call, "a session", lambda: asyncio.ensure_future(work())).body
        assert isinstance(stream, Stream)
        async for piece in stream.pieces:
            if RESULT in piece:
                break
            assert call.result is None
        await close_iterator(stream.pieces)

    asyncio.run(scene())
    assert call.result == {"isError": True, "resultBytes": len(RESULT)}
