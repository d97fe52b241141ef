"""The stream that answers an invocation, and what the audit log gets of a result that is not sent to its end."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from kernel_gateway.errors import QueueFull, ShuttingDown
from kernel_gateway.faces.agentcore import event_stream
from kernel_gateway.faces.agentcore.invocation_stream import answer_invocation
from kernel_gateway.faces.agentcore.invocations import Invocations
from kernel_gateway.faces.responses import Stream, close_iterator
from kernel_gateway.services.background import Background
from kernel_gateway.settings import Settings

RESULT = b'{"content":[],"isError":true}'


def make_call() -> Any:
    return SimpleNamespace(services=SimpleNamespace(settings=Settings()), result=None)


def test_a_result_is_recorded_also_when_the_client_leaves_while_it_is_sent() -> None:
    call = make_call()

    async def work() -> bytes:
        return RESULT

    async def scene() -> None:
        task = asyncio.ensure_future(work())
        waiter = Invocations(Background()).wait_for("a session", task)
        answer = await answer_invocation(call, "a session", task, waiter, hold_seconds=0, may_repeat=True)
        stream = answer.body
        assert isinstance(stream, Stream)
        async for piece in stream.pieces:
            if RESULT in piece:
                break
            assert call.result is None
        await close_iterator(stream.pieces)

    asyncio.run(scene())
    assert call.result == {"isError": True, "resultBytes": len(RESULT)}


async def refuse() -> bytes:
    raise QueueFull("no room", retry_after_seconds=1)


def test_what_keeps_a_tool_from_beginning_is_an_error_of_the_call() -> None:
    async def scene() -> None:
        task = asyncio.ensure_future(refuse())
        waiter = Invocations(Background()).wait_for("a session", task)
        await answer_invocation(make_call(), "a session", task, waiter, hold_seconds=60, may_repeat=True)

    with pytest.raises(QueueFull):
        asyncio.run(scene())


def test_it_is_a_result_once_the_answer_has_begun() -> None:
    async def scene() -> bytes:
        may_begin = asyncio.Event()

        async def work() -> bytes:
            await may_begin.wait()
            return await refuse()

        task = asyncio.ensure_future(work())
        waiter = Invocations(Background()).wait_for("a session", task)
        answer = await answer_invocation(make_call(), "a session", task, waiter, hold_seconds=0, may_repeat=True)
        assert isinstance(answer.body, Stream)
        pieces = [await anext(answer.body.pieces)]
        may_begin.set()
        return b"".join([*pieces, *[piece async for piece in answer.body.pieces]])

    sent = asyncio.run(scene())
    assert sent.startswith(event_stream.KEEP_ALIVE)
    assert b'{"content":[{"type":"text","text":"no room"}],"isError":true}' in sent


@pytest.mark.parametrize("may_repeat", [True, False])
def test_the_end_of_the_service_asks_for_a_repeat_only_of_what_may_run_again(*, may_repeat: bool) -> None:
    async def scene() -> bytes:
        task = asyncio.ensure_future(asyncio.sleep(600, b""))
        waiter = Invocations(Background()).wait_for("a session", task)
        task.cancel()
        answer = await answer_invocation(make_call(), "a session", task, waiter, hold_seconds=60, may_repeat=may_repeat)
        assert isinstance(answer.body, Stream)
        return b"".join([piece async for piece in answer.body.pieces])

    if may_repeat:
        with pytest.raises(ShuttingDown):
            asyncio.run(scene())
    else:
        assert b"internalServerException" in asyncio.run(scene())
