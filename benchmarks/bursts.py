"""A hundred sessions asked for at once, to the first result of each: from a pool, without one, jupyter-kernel-gateway.

All three in one run, one after another; the peer's kernels are processes of this host, without a sandbox. It
loses some of them now and then: they are counted, and its median is of the others.
"""

from __future__ import annotations

import asyncio
import contextlib
import statistics
import tempfile
import time
from pathlib import Path

from tornado.httpclient import HTTPClientError
from tornado.websocket import WebSocketClosedError

from benchmarks.attach_client import SECONDS, Client, Server
from benchmarks.attach_peer import KernelGateway
from benchmarks.bounds import at_most
from benchmarks.plain_http import Connection, Refused
from benchmarks.warm_pool import SETTINGS, create_at_once, measure_burst
from tests.running_service import RunningService

SIZE = 100
MOST_WARM, MOST_COLD = 0.015, 0.25


def run(service: RunningService, environments_dir: Path, *, rounds: int = SIZE) -> str:
    """A burst of so many; two rounds come with a burst of two."""
    service.stop()
    service.start(**SETTINGS)
    address = {"base_url": service.url, "headers": {"Authorization": f"Bearer {service.token}"}, "timeout": SECONDS}
    cold = asyncio.run(create_at_once(address, rounds))
    service.stop()
    warm = measure_burst(environments_dir, rounds)
    peer = _measure_peer(environments_dir, rounds)
    lost = f", {rounds - len(peer)} kernels lost" if len(peer) < rounds else ""
    said = ", ".join(
        f"{who} {statistics.median(taken) * 1000:.0f} ms (the last {max(taken) * 1000:.0f})"
        for who, taken in (("from a pool", warm), ("without one", cold), ("jupyter-kernel-gateway", peer))
    )
    ratios = [
        at_most(f"{who}, against jupyter-kernel-gateway,", statistics.median(taken) / statistics.median(peer), most)
        for who, taken, most in (("from a pool", warm, MOST_WARM), ("without one", cold, MOST_COLD))
    ]
    service.start()
    return f"{rounds} at once, create to first result, median: {said}{lost}; {'; '.join(ratios)}"


def _measure_peer(environments_dir: Path, size: int) -> list[float]:
    with (
        tempfile.TemporaryDirectory(prefix="scpeer", dir="/tmp") as home,
        KernelGateway(environments_dir.parent, Path(home)) as peer,
    ):
        return asyncio.run(_start_kernels(Server(peer.url, peer.token, peer.pid), size))


async def _start_kernels(server: Server, size: int) -> list[float]:
    callers = await asyncio.gather(*(Connection.connect(server.url, server.headers) for _ in range(size)))
    kernels: list[str] = []
    try:
        await asyncio.gather(*(each.ask("GET", "/api/kernelspecs") for each in callers))
        async with asyncio.timeout(SECONDS):
            taken = await asyncio.gather(*(_start_kernel(each, server, kernels) for each in callers))
        return [each for each in taken if each is not None]
    finally:
        for kernel in kernels:
            with contextlib.suppress(Refused):
                await callers[0].ask("DELETE", f"/api/kernels/{kernel}")
        await asyncio.gather(*(each.aclose() for each in callers))


async def _start_kernel(caller: Connection, server: Server, kernels: list[str]) -> float | None:
    """Seconds to its first result; None when the server lost it before that."""
    started = time.perf_counter()
    kernel = (await caller.ask("POST", "/api/kernels", {}))["id"]
    kernels.append(kernel)
    try:
        client = await Client.attach(server, kernel, "v1")
    except HTTPClientError:
        return None
    try:
        await client.until_idle(await client.send("1 + 1"))
    except (ConnectionError, WebSocketClosedError):
        return None
    finally:
        client.close()
    return time.perf_counter() - started
