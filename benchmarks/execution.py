"""The way of an execution, beside others in the same run: `pass` on warm sessions, through REST and not.

How long one takes through REST against raw ZMQ to the same kernel; how many a second over eight sessions, with a client
process for each, against raw ZMQ to the same kernels; and what processor time the service takes for one against
jupyter-kernel-gateway, which does the same for its own clients and records nothing.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from benchmarks.attach_client import Server
from benchmarks.attach_peer import KernelGateway
from benchmarks.bounds import at_least, at_most
from benchmarks.execution_client import WARM_UP, PlainRest
from benchmarks.raw_kernel import RawKernel
from benchmarks.warm_execution import KeptAlive, find_connection_file
from tests.running_service import RunningService

SESSIONS = 8
SECONDS = 3.0
"""How long one measurement of a load takes."""
LATENCIES = 400
MOST_P50, MOST_P99, LEAST_SHARE, MOST_CPU = 1.3, 1.5, 0.9, 0.25


class Clients:
    """A client process for each kernel, all of one kind; `run` has them work at the same time."""

    def __init__(self, kind: str, address: str, token: str, names: Sequence[str]) -> None:
        program = [sys.executable, "-m", "benchmarks.execution_client", kind, address, token]
        self._processes = [
            subprocess.Popen([*program, name], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            for name in names
        ]

    def __enter__(self) -> Clients:
        for process in self._processes:
            assert self._read(process) == "ready"
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._processes:
            process.communicate(timeout=60)

    def run(self, seconds: float) -> int:
        """How many executions they had carried out in all."""
        for process in self._processes:
            assert process.stdin is not None
            process.stdin.write(f"{seconds}\n")
            process.stdin.flush()
        return sum(int(self._read(process)) for process in self._processes)

    @staticmethod
    def _read(process: subprocess.Popen[str]) -> str:
        assert process.stdout is not None
        return process.stdout.readline().strip()


class Load:
    """What a load came to: executions a second, and seconds of processor time for one, of the server and of kernels."""

    def __init__(self) -> None:
        self.rates: list[float] = []
        self.server: list[float] = []
        self.kernels: list[float] = []

    def measure(self, clients: Clients, server: Server, kernel_pids: Sequence[int], seconds: float) -> None:
        pids = [[server.pid], kernel_pids]
        before, started = [sum(map(_cpu_seconds, each)) for each in pids], time.monotonic()
        count = clients.run(seconds)
        took = time.monotonic() - started
        used = [sum(map(_cpu_seconds, each)) - past for each, past in zip(pids, before, strict=True)]
        self.rates.append(count / took)
        self.server.append(used[0] / count)
        self.kernels.append(used[1] / count)

    def describe(self, who: str) -> str:
        rate, server, kernels = map(statistics.median, (self.rates, self.server, self.kernels))
        return f"{who} {rate:.0f}/s (CPU for one: server {server * 1000:.2f} ms, sandbox {kernels * 1000:.2f})"


def run(service: RunningService, environments_dir: Path, *, rounds: int = 5) -> str:
    seconds = SECONDS if rounds > 2 else SECONDS / 6
    with (
        tempfile.TemporaryDirectory(prefix="scpeer", dir="/tmp") as home,
        KernelGateway(environments_dir.parent, Path(home)) as peer,
    ):
        ours = Server(service.url, service.token, service.service_pid)
        theirs = Server(peer.url, peer.token, peer.pid)
        with open_sessions(service) as sessions, _kernels(theirs) as kernels:
            latency = _latency(ours, sessions[0], LATENCIES if rounds > 2 else 20)
            loads = _loads({"ours": (ours, sessions), "theirs": (theirs, kernels)}, rounds, seconds)
    return f"{latency}; {_compare(loads)}"


def _loads(servers: dict[str, tuple[Server, list[str]]], rounds: int, seconds: float) -> dict[str, Load]:
    (ours, sessions), (theirs, kernels) = servers.values()
    loads = {who: Load() for who in ("raw", "rest", "websocket")}
    pids = [pid for session in sessions for pid in _pids_of(session)]
    files = [str(find_connection_file(session)) for session in sessions]
    with ExitStack() as stack:
        clients = {
            "raw": stack.enter_context(Clients("raw", "", "", files)),
            "rest": stack.enter_context(Clients("rest", ours.url, ours.token, sessions)),
            "websocket": stack.enter_context(Clients("websocket", theirs.url, theirs.token, kernels)),
        }
        for _ in range(rounds):
            for who, load in loads.items():
                load.measure(clients[who], theirs if who == "websocket" else ours, pids, seconds)
    return loads


def _compare(loads: dict[str, Load]) -> str:
    raw, rest, websocket = loads.values()
    share = statistics.median(rest.rates) / statistics.median(raw.rates)
    cpu = statistics.median(rest.server) / statistics.median(websocket.server)
    said = ", ".join(load.describe(who) for who, load in loads.items())
    return (
        f"{SESSIONS} sessions: {said}; {at_least('share of raw', share, LEAST_SHARE)},"
        f" {at_most('CPU against that of jupyter-kernel-gateway', cpu, MOST_CPU)}"
    )


def _latency(ours: Server, session: str, rounds: int) -> str:
    """Raw and through REST in turn, on the same kernel."""
    raw, rest = [], []
    through = PlainRest(ours.url, ours.token, session)
    with RawKernel(find_connection_file(session)) as kernel:
        kernel.wait_subscribed()
        for number in range(rounds + WARM_UP):
            first = time.perf_counter()
            kernel.execute("pass")
            second = time.perf_counter()
            through.execute()
            third = time.perf_counter()
            if number >= WARM_UP:
                raw.append(second - first)
                rest.append(third - second)
    said = []
    for name, share, most in (("p50", 0.5, MOST_P50), ("p99", 0.99, MOST_P99)):
        one, other = (_percentile(each, share) for each in (raw, rest))
        said.append(f"raw {one * 1000:.2f} ms, REST {other * 1000:.2f}: {at_most(name, other / one, most)}")
    return ", ".join(said)


@contextmanager
def open_sessions(service: RunningService, wanted: Mapping[str, str] | None = None) -> Iterator[list[str]]:
    """Some, of which each has run a cell."""
    rest = KeptAlive(service)
    names = [rest.call("POST", "/v1/sessions", dict(wanted or {}))["id"] for _ in range(SESSIONS)]
    try:
        for name in names:
            rest.call("POST", f"/v1/sessions/{name}/executions", {"code": "pass"})
        yield names
    finally:
        rest.close()  # it has been idle for so long that the service may have closed it
        for name in names:
            rest.call("DELETE", f"/v1/sessions/{name}")
        rest.close()


@contextmanager
def _kernels(server: Server) -> Iterator[list[str]]:
    names = [server.ask("POST", "/api/kernels", {})["id"] for _ in range(SESSIONS)]
    try:
        yield names
    finally:
        for name in names:
            server.ask("DELETE", f"/api/kernels/{name}")


def _pids_of(session: str) -> list[int]:
    """The processes in a session's sandbox: the guest, its kernel, and what else runs there."""
    found = []
    for place in Path("/proc").glob("[0-9]*/cgroup"):
        try:
            if session in place.read_text():
                found.append(int(place.parent.name))
        except OSError:  # it has ended
            continue
    assert found, "the session's processes were not found"
    return found


def _cpu_seconds(pid: int) -> float:
    """What a process has used, its own and the system's time for it."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _percentile(values: list[float], share: float) -> float:
    return sorted(values)[min(int(len(values) * share), len(values) - 1)]
