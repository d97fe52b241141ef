"""What attached clients cost the service, beside jupyter-kernel-gateway in the same run.

CPU of the process that carries messages, per message and client; and how far 300 MB that a kernel prints move its
memory while nobody is attached any more, and while the one who is does not read. Ours records all of it besides.
"""

from __future__ import annotations

import asyncio
import contextlib
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.attach_client import FRAMINGS, SECONDS, Client, Server, never_reading
from benchmarks.attach_peer import KernelGateway
from tests.running_service import RunningService

CLIENTS = (1, 4)
MESSAGES = 2_000
MEGABYTES = 300
MOST_GROWTH_MB = 64
"""What the service adds: the ring of the session, what is stored of the cell, what is on its way to sockets."""
SHOW = "for number in range({count}): display({{'text/plain': str(number)}}, raw=True)"
SILENCE_SECONDS = 0.2

Case = tuple[str, str, int]


def run(service: RunningService, environments_dir: Path, *, rounds: int = 4) -> str:
    """`rounds` measurements of each, in turn, the first to warm up; few of them are also small."""
    short = rounds < 3
    messages, megabytes = (200, 20) if short else (MESSAGES, MEGABYTES)
    with (
        tempfile.TemporaryDirectory(prefix="scpeer", dir="/tmp") as home,
        KernelGateway(environments_dir.parent, Path(home)) as peer,
    ):
        ours = Server(service.url, service.token, service.service_pid)
        servers = {"ours": ours, "theirs": Server(peer.url, peer.token, peer.pid)}
        costs = _costs(servers, rounds, messages)
        growth = {case: _growth(servers[case[0]], case[1], megabytes) for case in _ways()}
    for (who, way), grown in growth.items():
        assert who != "ours" or grown < MOST_GROWTH_MB, f"{way}: the service grew by {grown:.0f} MB"
    return (
        f"{_said(costs)}; {megabytes} MB printed, growth at the peak: {_grown(growth)} (ours at most {MOST_GROWTH_MB})"
    )


def _ways() -> list[tuple[str, str]]:
    return [(who, way) for way in ("nobody attached", "a reader that is stuck") for who in ("ours", "theirs")]


def _costs(servers: dict[str, Server], rounds: int, messages: int) -> dict[Case, float]:
    """Microseconds of CPU per message and client, the median of the rounds, for each case."""
    seen: dict[Case, list[float]] = {}
    with contextlib.ExitStack() as stack:
        kernels = {who: stack.enter_context(_kernel(server)) for who, server in servers.items()}
        for number in range(rounds):  # the first warms up
            for framing in FRAMINGS:
                for clients in CLIENTS:
                    for who, server in servers.items():
                        cost = asyncio.run(_cost(server, kernels[who], framing, clients, messages))
                        if number:
                            seen.setdefault((who, framing, clients), []).append(cost)
    return {case: statistics.median(costs) for case, costs in seen.items()}


async def _cost(server: Server, kernel: str, framing: str, count: int, messages: int) -> float:
    clients = [await Client.attach(server, kernel, framing) for _ in range(count)]
    try:
        warm = await clients[0].send("from IPython.display import display")
        await asyncio.gather(*(client.until_idle(warm) for client in clients))
        await asyncio.sleep(SILENCE_SECONDS)
        before = server.cpu_seconds()
        asked = await clients[0].send(SHOW.format(count=messages))
        shown = await asyncio.gather(*(client.until_idle(asked) for client in clients))
        used = server.cpu_seconds() - before
    finally:
        for client in clients:
            client.close()
    assert shown == [messages] * count, f"{server.url}: of {messages} messages came {shown}"
    return used / (messages * count) * 1e6


def _growth(server: Server, way: str, megabytes: int) -> float:
    """How far the memory of the server rises above what it was, in MB."""
    with _kernel(server) as kernel:
        asyncio.run(_warm(server, kernel))
        before = server.memory_bytes("VmRSS")
        server.forget_peak()
        code = f"for _ in range({megabytes * 1000}): print('x' * 999)"
        if way == "nobody attached":
            asyncio.run(_ask_and_leave(server, kernel, code))
            _wait_idle(server, kernel)
        else:
            with contextlib.closing(never_reading(server, kernel, code)):
                _wait_idle(server, kernel)
        return (server.memory_bytes("VmHWM") - before) / 1e6


async def _warm(server: Server, kernel: str) -> None:
    client = await Client.attach(server, kernel, "legacy")
    await client.until_idle(await client.send("for _ in range(5_000): print('x' * 999)"))
    client.close()


async def _ask_and_leave(server: Server, kernel: str, code: str) -> None:
    """Have code run, and go as soon as it runs, as a laptop does that is closed."""
    client = await Client.attach(server, kernel, "legacy")
    await client.send(code)
    give_up = time.monotonic() + SECONDS
    while _state(server, kernel) != "busy":
        assert time.monotonic() < give_up, "the code never ran"
        await asyncio.sleep(0.01)
    client.close()


def _wait_idle(server: Server, kernel: str) -> None:
    """Wait until the kernel has been busy, and is idle."""
    give_up = time.monotonic() + SECONDS
    busy = False
    while not busy or _state(server, kernel) != "idle":
        busy = busy or _state(server, kernel) == "busy"
        assert time.monotonic() < give_up, "the code never ended"
        time.sleep(0.05)
    time.sleep(SILENCE_SECONDS)


def _state(server: Server, kernel: str) -> str:
    return str(server.ask("GET", f"/api/kernels/{kernel}")["execution_state"])


@contextlib.contextmanager
def _kernel(server: Server) -> Iterator[str]:
    kernel = server.ask("POST", "/api/kernels", {})["id"]
    try:
        yield kernel
    finally:
        server.ask("DELETE", f"/api/kernels/{kernel}")


def _said(costs: dict[Case, float]) -> str:
    """Each framing and number of clients: ours, theirs, and the ratio."""
    parts = []
    for framing in FRAMINGS:
        for clients in CLIENTS:
            ours, theirs = costs["ours", framing, clients], costs["theirs", framing, clients]
            parts.append(f"{framing} to {clients}: {ours:.0f} us, theirs {theirs:.0f} ({theirs / max(ours, 0.1):.1f}x)")
    return f"CPU per message and client, {', '.join(parts)}"


def _grown(growth: dict[tuple[str, str], float]) -> str:
    return ", ".join(f"{way} {who} {grown:.0f} MB" for (who, way), grown in growth.items())
