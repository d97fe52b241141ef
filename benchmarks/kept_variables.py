"""How long a kernel writes its variables down after an execution, and how long a new kernel takes to take them up.

The first is measured on the kernel's own sockets, with nobody waiting for it. What an execution waits for with `each`
that comes as soon as the one before it is answered is measured through REST, beside the same with `off`.
"""

from __future__ import annotations

import statistics
import time
from pathlib import Path
from typing import Any

from benchmarks.bounds import at_most
from benchmarks.raw_kernel import RawKernel
from benchmarks.warm_execution import KeptAlive, find_connection_file
from tests.running_service import RunningService

TABLE = (
    '[kept]\nimage = "python"\nmemory_mb = 8000\nstorage_mb = 5000\n'
    'keep_variables = "each"\nkeep_variables_mb = 1500\n\n'
    '[off]\nimage = "python"\nmemory_mb = 8000\nstorage_mb = 5000\nkeep_variables = "off"\n'
)
FILL = """
import json, pandas, numpy
def double(x): return x * 2
class Point:
    def __init__(self, x): self.x = x
for number in range(25):
    globals()[f"number_{number}"], globals()[f"text_{number}"] = number, f"text {number}"
    globals()[f"list_{number}"], globals()[f"dict_{number}"] = [number] * 10, {"a": Point(number)}
number = 0
"""
FRAME = "frame = pandas.DataFrame(numpy.random.default_rng(1).random(({0} * 12_500, 10)))"
"""Of so many MB."""
LARGE = FRAME.format(100)
STATES = {
    "unchanged": ("pass", "pass"),
    "a small change": ("pass", "number += 1"),
    "unchanged, with a frame of 100 MB": (LARGE, "pass"),
    "100 MB changed": (LARGE, "frame = frame + 1"),
}
WAITING = {"100 small variables": "pass", "with a frame of 100 MB": LARGE}
SIZES_MB = (10, 100, 1000)
DIE = "import os; os.kill(os.getpid(), 9)"
MOST_MS = 3.0
PAUSE_SECONDS = 0.05
"""After which nothing is being kept any more, besides on a machine that is too busy for figures."""


def run(service: RunningService, environments_dir: Path, *, rounds: int = 200) -> str:
    file = service.data_dir / "environments.toml"
    file.write_text(TABLE)
    service.stop()
    service.start(environments_file=file)
    http = KeptAlive(service)
    try:
        costs = [
            f"{name} {_measure_cost(http, first, code, max(rounds // 10, 2) if first == LARGE else rounds)}"
            for name, (first, code) in STATES.items()
        ]
        waits = [_measure_wait(http, first, rounds, name) for name, first in WAITING.items()]
        restores = [f"{size:,} MB {_measure_restore(http, size):.2f} s" for size in SIZES_MB]
    finally:
        http.close()
    return (
        "what an execution waits for that comes at once, unchanged state, `each` against `off`:"
        f" {'; '.join(waits)}. Written down while nobody waits, p50 and p99: {'; '.join(costs)}."
        f" From a kernel's death to the end of the next execution, with frames: {'; '.join(restores)}"
    )


def _measure_cost(http: KeptAlive, first: str, code: str, rounds: int) -> str:
    session = str(http.call("POST", "/v1/sessions", {"environment": "off"})["id"])
    asked = {"do": "keep", "bytes": 1_500_000_000, "seconds": 60, "stamp": {}}
    times, ways = [], []
    with RawKernel(find_connection_file(session)) as kernel:
        for begin in (FILL, first, code):
            kernel.execute(begin)
            kernel.ask("sandcell_kept_request", asked)
        for _ in range(rounds):
            kernel.execute(code)
            began = time.perf_counter()
            told = kernel.ask("sandcell_kept_request", asked)
            between = time.perf_counter()
            kernel.ask("sandcell_kept_request", {"do": "nothing"})
            times.append((between - began) * 1e3)
            ways.append((time.perf_counter() - between) * 1e3)
            assert all(each["outcome"] == "kept" for each in told["variables"]), told
    http.call("DELETE", f"/v1/sessions/{session}")
    way = statistics.median(ways)
    return f"{statistics.median(times) - way:.1f} and {statistics.quantiles(times, n=100)[98] - way:.1f} ms"


def _measure_wait(http: KeptAlive, first: str, rounds: int, name: str) -> str:
    """How much longer the second of two executions takes where variables are kept after each, in turn with `off`.

    The first, which comes when nothing is being kept, has its answer before that begins: it is to take no longer.
    """
    sessions = {mode: str(http.call("POST", "/v1/sessions", {"environment": mode})["id"]) for mode in ("kept", "off")}
    for session in sessions.values():
        for begin in (FILL, first, "pass"):
            _execute(http, session, begin)
    times: dict[str, list[float]] = {mode: [] for mode in sessions}
    alone: dict[str, list[float]] = {mode: [] for mode in sessions}
    for _ in range(rounds):
        for mode, session in sessions.items():
            time.sleep(PAUSE_SECONDS)
            first = time.perf_counter()
            _execute(http, session, "pass")
            second = time.perf_counter()
            _execute(http, session, "pass")
            alone[mode].append((second - first) * 1e3)
            times[mode].append((time.perf_counter() - second) * 1e3)
    for session in sessions.values():
        http.call("DELETE", f"/v1/sessions/{session}")
    kept, off = times.values()
    p50 = statistics.median(kept) - statistics.median(off)
    p99 = statistics.quantiles(kept, n=100)[98] - statistics.quantiles(off, n=100)[98]
    first = statistics.median(alone["kept"]) - statistics.median(alone["off"])
    return f"{at_most(f'{name} p50', p50, MOST_MS)}, p99 {p99:.1f}, one that comes later p50 {first:.1f}"


def _measure_restore(http: KeptAlive, size_mb: int) -> float:
    """Seconds from a death to the end of the next execution, without those of a kernel that takes up nothing."""
    times = []
    for name in ("kept", "off"):
        session = str(http.call("POST", "/v1/sessions", {"environment": name})["id"])
        _execute(http, session, "import pandas, numpy; frames = 0")
        for number in range(max(size_mb // 100, 1)):
            made = FRAME.format(min(size_mb, 100)).replace("frame", f"frame_{number}", 1)
            _execute(http, session, made)
        _execute(http, session, "pass")
        http.call("POST", f"/v1/sessions/{session}/executions", {"code": DIE})
        began = time.perf_counter()
        check = "len([each for each in list(globals()) if each.startswith('frame_')])"
        done = _execute(http, session, check)
        times.append(time.perf_counter() - began)
        found = http.call("GET", f"/v1/sessions/{session}")["restored"]
        if name == "kept" and (
            found is None or done["outputs"][-1]["data"]["text/plain"] != str(max(size_mb // 100, 1))
        ):
            raise RuntimeError(found)
        http.call("DELETE", f"/v1/sessions/{session}")
    return times[0] - times[1]


def _execute(http: KeptAlive, session: str, code: str) -> Any:
    done = http.call("POST", f"/v1/sessions/{session}/executions", {"code": code})
    if done["status"] != "ok":
        raise RuntimeError(done)
    return done
