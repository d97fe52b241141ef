"""An upload on its way: bounded, and it ends whichever side ends first."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from kernel_gateway.faces.rest.upload import MOST_CHUNKS, Upload


async def collect(chunks: AsyncIterator[bytes]) -> bytes:
    return b"".join([chunk async for chunk in chunks])


def test_the_consumer_gets_every_chunk_in_order() -> None:
    async def scenario() -> bytes:
        upload = Upload(collect)
        for number in range(100):
            await upload.put(b"%d," % number)
        result: bytes = await upload.finish()
        return result

    assert asyncio.run(scenario()) == b"".join(b"%d," % number for number in range(100))


def test_a_slow_consumer_holds_the_sender_up() -> None:
    async def scenario() -> int:
        go = asyncio.Event()

        async def slow(chunks: AsyncIterator[bytes]) -> bytes:
            await go.wait()
            return await collect(chunks)

        upload, taken = Upload(slow), 0

        async def send() -> None:
            nonlocal taken
            for _ in range(100):
                await upload.put(b"x")
                taken += 1

        sender = asyncio.ensure_future(send())
        await asyncio.sleep(0.05)
        held_at = taken
        go.set()
        await sender
        assert await upload.finish() == b"x" * 100
        return held_at

    assert asyncio.run(scenario()) <= MOST_CHUNKS


def test_a_consumer_that_fails_lets_a_waiting_sender_go() -> None:
    async def scenario() -> None:
        async def failing(chunks: AsyncIterator[bytes]) -> None:
            await asyncio.sleep(0.02)
            raise OSError("no space")

        upload = Upload(failing)
        async with asyncio.timeout(120):
            for _ in range(5 * MOST_CHUNKS):
                await upload.put(b"x")
            with pytest.raises(OSError, match="no space"):
                await upload.finish()

    asyncio.run(scenario())


def test_an_aborted_consumer_is_gone_and_never_sees_an_end() -> None:
    async def scenario() -> list[str]:
        seen: list[str] = []

        async def watching(chunks: AsyncIterator[bytes]) -> None:
            try:
                await collect(chunks)
                seen.append("complete")
            except asyncio.CancelledError:
                seen.append("cancelled")
                raise

        upload = Upload(watching)
        await upload.put(b"x")
        await asyncio.sleep(0)
        await upload.abort()
        return seen

    assert asyncio.run(scenario()) == ["cancelled"]
