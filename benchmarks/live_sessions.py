"""Live sessions with pandas imported and a DataFrame of 1 MB each, which answer thirty executions a second in all.

For each number of them: the time from when an execution was due to its answer, spread evenly over the sessions in a
random order, whoever else is being answered (an answer that is late delays no other's beginning); what the service
holds for them (memory, descriptors, threads, watches), and the host (mounts, loop devices). Then how long a stop takes,
and a plot of all that beside bursts of starts from a pool, drawn in one of the sessions.
"""

from __future__ import annotations

import ast
import asyncio
import base64
import contextlib
import json
import random
import shutil
import statistics
import time
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any

from benchmarks import warm_pool
from benchmarks.bounds import at_most
from benchmarks.idle_memory import read_private_bytes
from benchmarks.plain_http import Connection, Refused
from kernels.host_memory import HostMemory
from kernels.oci.host.shares import MOUNTS, SERVICE_DESCRIPTORS
from tests.running_service import RunningService
from tests.swap_file import PLACE, swap_file

SIZES = (1, 10, 100, 1_000)
CODE = "import pandas as pd; frame = pd.DataFrame({'x': range(131_072)}); open('kept', 'w').write('x')"
ASK = "int(frame.x.sum())"
ANSWER = str(sum(range(131_072)))
A_SECOND = 30
STARTS_AT_ONCE = 4
EACH_BYTES = 130 << 20
"""What a session takes of the host's memory, roughly: where all together do not fit, swap is added."""
PATIENCE_SECONDS = 120.0
MOST_P99_MS, MOST_STOP_MS, MOST_SERVICE_MB = 250, 30, 100
LEAST_COUNTED = 100
"""With fewer sessions what the service grows by is not for them."""
STOPS = 10
BURSTS = (1, 10, 100)
THREADS = 64
"""What all pools of threads of one process may grow by."""
CONNECTIONS = 64
SETTINGS = {
    "invocations_per_second": 10_000,
    "requests_per_second": 100_000,
    "live_sessions": 1_000,
    "sessions_per_principal": 1_000,
    "idle_timeout_seconds": 86_400,
}


@dataclass(frozen=True)
class Measured:
    """With so many sessions: seconds of each answer, bytes of the service over itself alone, what it holds for them."""

    sessions: int
    seconds: Sequence[float]
    service_bytes: int
    held: Counter[str]

    @property
    def p50(self) -> float:
        return statistics.median(self.seconds)

    @property
    def p99(self) -> float:
        return sorted(self.seconds)[int(len(self.seconds) * 0.99)]

    def describe(self, before: Counter[str]) -> str:
        each = ", ".join(
            f"{(count - before[name]) / self.sessions:.1f} {name}" for name, count in sorted(self.held.items())
        )
        return (
            f"{self.sessions}: p50 {self.p50 * 1e3:.0f} ms, p99 {self.p99 * 1e3:.0f} ms, service"
            f" {self.service_bytes / 1e6:+.1f} MB, for each {each}"
        )


def run(
    service: RunningService,
    environments_dir: Path,
    *,
    rounds: int = 60,
    sizes: Sequence[int] = (),
    plot: Path | None = None,
) -> str:
    """For so many seconds each number of sessions is asked; two come with few sessions."""
    sizes = sizes or (SIZES if rounds > 2 else (1, 3))
    service.stop()
    with _room_for(max(sizes)):
        service.start(**SETTINGS)
        try:
            before, found, stops = asyncio.run(_measure(service, sizes, rounds))
        finally:
            service.stop()  # before the swap goes, which would bring all of it back
    bursts = {size: warm_pool.measure_burst(environments_dir, size) for size in BURSTS if size <= max(sizes)}
    service.start()
    png = asyncio.run(_draw(service, found, bursts))
    if plot is not None:
        plot.write_bytes(png)
    most = found[-1]
    _require_bounds(before, most.held, most.sessions)
    said = [each.describe(before) for each in found]
    said.append(at_most("stop with all files stored, ms,", statistics.median(stops) * 1e3, MOST_STOP_MS))
    said.append(at_most(f"p99 of {most.sessions}, ms,", most.p99 * 1e3, MOST_P99_MS))
    if most.sessions >= LEAST_COUNTED:
        mb = most.service_bytes / 1e6 / most.sessions
        said.append(at_most("service for each, MB,", mb, MOST_SERVICE_MB / SIZES[-1]))
    return "; ".join(said)


def _require_bounds(before: Counter[str], held: Counter[str], sessions: int) -> None:
    """What the doctor counts with is enough, and threads are of pools that do not grow with sessions."""
    most = {
        "descriptors of the service": SERVICE_DESCRIPTORS * sessions + CONNECTIONS,
        "descriptors of the launcher": 0,
        "inotify instances of the service": sessions,
        "inotify instances of the launcher": 0,
        "mounts of the launcher": MOUNTS * sessions,
        "mounts of the service": sessions,
        "loop devices": sessions,
        "threads of the service": THREADS,
        "threads of the launcher": THREADS,
    }
    over = {name: held[name] - before[name] for name in most if held[name] - before[name] > most[name]}
    assert not over, f"{sessions} sessions hold more than {most}: {over}"


def _room_for(sessions: int) -> contextlib.AbstractContextManager[object]:
    """Swap, where so many sessions do not fit into memory."""
    wanted, there = sessions * EACH_BYTES, HostMemory().available_bytes()
    if wanted < there * 3 // 4:
        return contextlib.nullcontext()
    return swap_file(min(wanted, shutil.disk_usage(PLACE).free // 2) >> 20)


async def _measure(
    service: RunningService, sizes: Sequence[int], seconds: int
) -> tuple[Counter[str], list[Measured], list[float]]:
    async with _clients(service, 1) as http:
        await _stop(http, await _start(http))  # what is loaded once is loaded
    await _wait_until_removed(service)
    before, alone = _count_held(service), read_private_bytes(service.service_pid)
    sessions: list[str] = []
    found = []
    for size in sizes:
        async with _clients(service, STARTS_AT_ONCE) as http:
            sessions += await asyncio.gather(*(_start(http) for _ in range(size - len(sessions))))
        async with _clients(service, CONNECTIONS) as http:
            taken = await _ask_all(http, sessions, seconds)
            held = _count_held(service)
        found.append(Measured(size, taken, read_private_bytes(service.service_pid) - alone, held))
    async with _clients(service, 1) as http:
        stops = [await _stop(http, each) for each in sessions[:STOPS]]
    return before, found, stops


class Clients:
    """Connections that take turns: a caller waits until one is free, which counts as the answer's time."""

    def __init__(self, connections: Sequence[Connection]) -> None:
        self._connections = connections
        self._free: asyncio.Queue[Connection] = asyncio.Queue()
        for each in connections:
            self._free.put_nowait(each)

    async def ask(self, method: str, path: str, body: object = None) -> Any:
        connection = await self._free.get()
        try:
            return await connection.ask(method, path, body)
        finally:
            self._free.put_nowait(connection)

    async def aclose(self) -> None:
        for each in self._connections:
            await each.aclose()


@contextlib.asynccontextmanager
async def _clients(service: RunningService, count: int) -> AsyncIterator[Clients]:
    headers = {"Authorization": f"Bearer {service.token}"}
    made = Clients([await Connection.connect(service.url, headers) for _ in range(count)])
    try:
        yield made
    finally:
        await made.aclose()


async def _start(http: Clients) -> str:
    session = str((await http.ask("POST", "/v1/sessions", {}))["id"])
    await _run(http, session, CODE)
    return session


async def _run(http: Clients, session: str, code: str) -> str:
    while True:
        try:
            done = await http.ask("POST", f"/v1/sessions/{session}/executions", {"code": code})
            break
        except Refused as refused:
            if refused.status != HTTPStatus.TOO_MANY_REQUESTS:
                raise
            # Its queue is full, on a machine that is too slow for this: it is later by so much.
            await asyncio.sleep(0.1)
    if done["status"] != "ok":
        raise RuntimeError(done)
    return str(done["outputs"][-1]["data"]["text/plain"]) if done["outputs"] else ""


async def _ask_all(http: Clients, sessions: Sequence[str], seconds: int) -> list[float]:
    """Each answer's seconds, counted from when it was due: a client that is late itself counts as well."""
    order = random.Random(len(sessions)).sample(sessions, len(sessions))
    began = time.perf_counter()

    async def ask(number: int) -> float:
        due = began + number / A_SECOND
        await asyncio.sleep(due - time.perf_counter())
        if await _run(http, order[number % len(order)], ASK) != ANSWER:
            raise RuntimeError("a session lost its frame")
        return time.perf_counter() - due

    return await asyncio.gather(*(ask(number) for number in range(A_SECOND * seconds)))


async def _stop(http: Clients, session: str) -> float:
    """Seconds of a stop, once the store has all files of the session."""
    give_up = time.monotonic() + PATIENCE_SECONDS
    while (await http.ask("GET", f"/v1/sessions/{session}"))["sync"]["pending"]:
        if time.monotonic() > give_up:
            raise TimeoutError("the files were not stored")
        await asyncio.sleep(0.1)
    began = time.perf_counter()
    await http.ask("DELETE", f"/v1/sessions/{session}")
    return time.perf_counter() - began


async def _wait_until_removed(service: RunningService) -> None:
    """A stopped session's sandbox is removed after the answer."""
    give_up = time.monotonic() + PATIENCE_SECONDS
    while _find_sandboxes(service):
        if time.monotonic() > give_up:
            raise TimeoutError("the sandbox of a stopped session was not removed")
        await asyncio.sleep(0.05)


def _find_sandboxes(service: RunningService) -> set[str]:
    return {path.name for path in service.data_dir.glob("sandboxes/*")}


def _count_held(service: RunningService) -> Counter[str]:
    """What the service and its launcher have open, and what the host has for them."""
    held: Counter[str] = Counter()
    sandboxes = _find_sandboxes(service)
    for name, pid in (("of the service", service.service_pid), ("of the launcher", service.pid)):
        links = [_read_link(each) for each in Path(f"/proc/{pid}/fd").iterdir()]
        held[f"descriptors {name}"] = len(links)
        held[f"threads {name}"] = len(list(Path(f"/proc/{pid}/task").iterdir()))
        held[f"inotify instances {name}"] = links.count("anon_inode:inotify")
        points = [line.split()[4] for line in Path(f"/proc/{pid}/mountinfo").read_text().splitlines()]
        # What others mount on the host meanwhile is seen there too.
        held[f"mounts {name}"] = sum(not sandboxes.isdisjoint(point.split("/")) for point in points)
    mounted = Path(f"/proc/{service.pid}/mountinfo").read_text().splitlines()
    held["loop devices"] = sum("/dev/loop" in line and str(service.data_dir) in line for line in mounted)
    return held


def _read_link(place: Path) -> str:
    try:
        return str(place.readlink())
    except OSError:  # it was closed meanwhile
        return ""


async def _draw(service: RunningService, found: Sequence[Measured], bursts: dict[int, list[float]]) -> bytes:
    """The plot as PNG, drawn where code is run."""
    latency = [(each.sessions, each.p50 * 1e3, each.p99 * 1e3) for each in found]
    burst = [(size, statistics.median(taken) * 1e3) for size, taken in bursts.items()]
    code = f"latency, burst = json.loads({json.dumps(json.dumps([latency, burst]))!s})\n"
    async with _clients(service, 1) as http:
        session = str((await http.ask("POST", "/v1/sessions", {}))["id"])
        png = await _run(http, session, f"import base64, json\n{code}{PLOT}")
        await http.ask("DELETE", f"/v1/sessions/{session}")
    return base64.b64decode(ast.literal_eval(png))


PLOT = """
import matplotlib
matplotlib.use("Agg")
import matplotlib.pyplot as plt

figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4), dpi=120)
for column, name in ((1, "median"), (2, "99th percentile")):
    left.plot([row[0] for row in latency], [row[column] for row in latency], marker="o", label=name)
left.set(xscale="log", yscale="log", xlabel="live sessions, 30 executions a second in all", ylabel="ms to the answer")
left.legend()
right.plot([row[0] for row in burst], [row[1] for row in burst], marker="o", color="tab:green")
right.set(xscale="log", yscale="log", xlabel="sessions created at once, from a pool", ylabel="median, ms")
for each in (left, right):
    each.grid(which="both", alpha=0.3)
    for axis in (each.xaxis, each.yaxis):
        axis.set_major_formatter("{x:g}")
        axis.set_minor_formatter("")
figure.tight_layout()
figure.savefig("plot.png")
base64.b64encode(open("plot.png", "rb").read()).decode()
"""
