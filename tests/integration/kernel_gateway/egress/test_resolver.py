"""This host's resolver, with the names every host has."""

from __future__ import annotations

import asyncio
import socket

import pytest

from kernel_gateway.egress import resolver


def test_a_name_of_this_host() -> None:
    assert "127.0.0.1" in asyncio.run(resolver.system_resolve("localhost", 80))


def test_a_name_that_is_none() -> None:
    for name in ("a..b", "x" * 300):
        with pytest.raises(OSError, match=r"."):
            asyncio.run(resolver.system_resolve(name, 80))


def test_threads_are_given_back_and_bounded() -> None:
    async def test() -> None:
        for _ in range(resolver.THREADS + 1):
            await resolver.system_resolve("localhost", 80)
        taken = [resolver._free.acquire(blocking=False) for _ in range(resolver.THREADS)]
        assert all(taken)
        with pytest.raises(socket.gaierror, match="too many names"):
            await resolver.system_resolve("localhost", 80)
        resolver._free.release(resolver.THREADS)

    asyncio.run(test())
