"""What keeping variables costs an execution that comes at once after another, and how long a new kernel takes them up.

The cost is the difference to a session that keeps none, asked in turn; with `each` an execution waits for what the one
before it has left to write.
"""

from __future__ import annotations

import statistics
import time
from pathlib import Path
from typing import Any

from benchmarks.warm_execution import KeptAlive
from tests.running_service import RunningService

TABLE = (
    '[kept]\nimage = "python"\nmemory_mb = 8000\nstorage_mb = 5000\n'
    'keep_variables = "each"\nkeep_variables_mb = 1500\n\n'
    '[off]\nimage = "python"\nmemory_mb = 8000\nstorage_mb = 5000\n'
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
STATES = {
    "unchanged": (None, "pass"),
    "a small change": (None, "number += 1"),
    "unchanged, with a frame of 100 MB": (FRAME.format(100), "pass"),
    "100 MB changed": (FRAME.format(100), "frame = frame + 1"),
}
SIZES_MB = (10, 100, 1000)
DIE = "import os; os.kill(os.getpid(), 9)"
MOST_MS = 3.0


def run(service: RunningService, environments_dir: Path, *, rounds: int = 200) -> str:
    file = service.data_dir / "environments.toml"
    file.write_text(TABLE)
    service.stop()
    service.start(environments_file=file)
    http = KeptAlive(service)
    try:
        costs = [f"{name} {_measure_cost(http, *STATES[name], rounds)}" for name in STATES]
        restores = [f"{size:,} MB {_measure_restore(http, size):.2f} s" for size in SIZES_MB]
    finally:
        http.close()
    return (
        f"cost of `each` per execution, p50 and p99 (unchanged: at most {MOST_MS:g} ms at p50): {'; '.join(costs)}."
        f" From a kernel's death to the end of the next execution, with frames: {'; '.join(restores)}"
    )


def _measure_cost(http: KeptAlive, first: str | None, code: str, rounds: int) -> str:
    names = ("kept", "off")
    sessions = [str(http.call("POST", "/v1/sessions", {"environment": name})["id"]) for name in names]
    times: list[list[float]] = [[], []]
    for each in sessions:
        for begin in (FILL, first or "pass", code, code):
            _execute(http, each, begin)
    for _ in range(rounds if first is None else max(rounds // 4, 2)):
        for session, found in zip(sessions, times, strict=True):
            began = time.perf_counter()
            _execute(http, session, code)
            found.append(time.perf_counter() - began)
    for each in sessions:
        http.call("DELETE", f"/v1/sessions/{each}")
    (with_it, without) = ([statistics.median(each), statistics.quantiles(each, n=100)[98]] for each in times)
    return " and ".join(f"{(one - other) * 1e3:.1f}" for one, other in zip(with_it, without, strict=True)) + " ms"


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
