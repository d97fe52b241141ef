"""Sessions in pods beside those of one machine, in one run: to create, to execute, many executions at once, and bytes.

Three services of this machine, asked in turn: two whose sessions are pods of a cluster with one node, which this starts
and ends, one of them reaching its pods through the API server; and one under runc. Each has a pool of the image, and
the image without one.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from benchmarks.attach_client import Server
from benchmarks.bounds import at_most
from benchmarks.cold_start import measure_session
from benchmarks.execution import SECONDS, SESSIONS, Clients, Load, open_sessions
from benchmarks.execution_client import WARM_UP, PlainRest
from benchmarks.warm_pool import WarmService
from tests.kubernetes_cluster import running_cluster, why_not
from tests.running_service import RunningService

MOST_WARM_SECONDS = 0.15
POOL = 2
WITHOUT_POOL = "cold"
MORE = f'[{WITHOUT_POOL}]\nimage = "python"\n'
IN_PODS = "in pods"
FORWARDED = "in pods through the API server"
LATENCIES = 200
BYTES = 50_000_000
PRINT = f"for _ in range({BYTES // 100_000}): print('x' * 99_999)"
Services = Mapping[str, WarmService]


def run(_service: RunningService, environments_dir: Path, *, rounds: int = 12) -> str:
    if why := why_not():
        return f"not measured: {why}"
    with ExitStack() as opened:
        place = Path(opened.enter_context(tempfile.TemporaryDirectory(prefix="scbench", dir="/tmp")))
        cluster = opened.enter_context(running_cluster(environments_dir, place))
        in_pods = {"runtime": "kubernetes", "kubernetes_config": cluster.config}
        forwarded = {**in_pods, "kubernetes_port_forward": True}
        services = {
            who: opened.enter_context(WarmService(environments_dir, POOL, MORE, **settings))
            for who, settings in (("on a host", {}), (IN_PODS, in_pods), (FORWARDED, forwarded))
        }
        return _compare(services, rounds)


def _compare(services: Services, rounds: int) -> str:
    warm = _in_turn(services, rounds, _create)
    cold = _in_turn(services, max(2, rounds // 3), lambda service: _create(service, WITHOUT_POOL))
    executions, loads = _execute(services, LATENCIES if rounds > 2 else 20, max(1, rounds // 4))
    rates = _medians({who: load.rates for who, load in loads.items()})
    carried = _carry(services, max(2, rounds // 3))
    bytes_carried = "; ".join(f"{what} {_say(each, 1, 'MB/s')}" for what, each in carried.items())
    used = {who: statistics.median(load.server) + statistics.median(load.kernels) for who, load in loads.items()}
    return (
        f"create to first result from a pool {_say(warm, 1000, 'ms')}, without one {_say(cold, 1000, 'ms')}; `pass`"
        f" through REST {_say(executions, 1000, 'ms', 1)}; over {SESSIONS} sessions"
        f" {_say(rates, 1, 'a second')}, for each of which the service and its launcher take"
        f" {_say(used, 1000, 'ms', 1)}; {bytes_carried};"
        f" {at_most('seconds from a pool of pods', warm[IN_PODS], MOST_WARM_SECONDS)}"
    )


def _create(service: WarmService, environment: str = "") -> float:
    with service.http() as http:
        service.wait_full(http)
        return measure_session(http, {"environment": environment} if environment else {})


def _in_turn(services: Services, rounds: int, measure: Callable[[WarmService], float]) -> dict[str, float]:
    """The median of each."""
    taken: dict[str, list[float]] = {who: [] for who in services}
    for _ in range(rounds):
        for who, service in services.items():
            taken[who].append(measure(service))
    return _medians(taken)


def _execute(services: Services, latencies: int, rounds: int) -> tuple[dict[str, float], dict[str, Load]]:
    """Seconds of one `pass`, and what comes of some sessions with a client process each."""
    seconds = SECONDS if latencies == LATENCIES else SECONDS / 6
    with ExitStack() as opened:
        sessions = {
            who: opened.enter_context(open_sessions(each.service, {"environment": WITHOUT_POOL}))
            for who, each in services.items()
        }
        places = {who: (each.service.url, each.service.token) for who, each in services.items()}
        callers = {who: PlainRest(*place, sessions[who][0]) for who, place in places.items()}
        taken: dict[str, list[float]] = {who: [] for who in services}
        for number in range(latencies + WARM_UP):
            for who, caller in callers.items():
                began = time.perf_counter()
                caller.execute()
                if number >= WARM_UP:
                    taken[who].append(time.perf_counter() - began)
        clients = {who: opened.enter_context(Clients("rest", *place, sessions[who])) for who, place in places.items()}
        servers = {who: Server(*place, services[who].service.service_pid) for who, place in places.items()}
        loads = {who: Load() for who in services}
        for number in range(rounds):
            # What a service writes down after a load is work beside the next one's: each is to follow either neighbour.
            for who, load in list(loads.items())[:: 1 if number % 2 == 0 else -1]:
                load.measure(clients[who], servers[who], [services[who].service.pid], seconds)
    return _medians(taken), loads


def _carry(services: Services, rounds: int) -> dict[str, dict[str, float]]:
    """Megabytes a second of what is printed, of a file that is sent and of one that is fetched."""
    taken: dict[str, dict[str, list[float]]] = {
        what: {who: [] for who in services} for what in ("output", "upload", "download")
    }
    with ExitStack() as opened:
        sessions = {
            who: opened.enter_context(opened.enter_context(each.service.client()).session(environment=WITHOUT_POOL))
            for who, each in services.items()
        }
        for session in sessions.values():
            session.run("pass")
        for _ in range(rounds):
            for who, session in sessions.items():
                ways: dict[str, Callable[[], object]] = {
                    "output": partial(session.run, PRINT),
                    "upload": partial(session.upload, "file", bytes(BYTES)),
                    "download": partial(session.download, "file"),
                }
                for what, work in ways.items():
                    began = time.perf_counter()
                    work()
                    taken[what][who].append(BYTES / 1e6 / (time.perf_counter() - began))
    return {what: _medians(each) for what, each in taken.items()}


def _medians(found: Mapping[str, list[float]]) -> dict[str, float]:
    return {who: statistics.median(each) for who, each in found.items()}


def _say(found: Mapping[str, float], factor: float, unit: str, digits: int = 0) -> str:
    return " and ".join(f"{value * factor:.{digits}f} {unit} {who}" for who, value in found.items())
