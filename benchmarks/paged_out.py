"""Memory of a live session with pandas and a DataFrame of 1 MB: right after use, and stopped with its memory in swap.

Proportional (PSS) over all processes of its sandbox. Then the first `pass` after it goes on, beside warm ones.
"""

from __future__ import annotations

import statistics
import time
from pathlib import Path

import httpx

from tests.control_groups import find
from tests.running_service import RunningService
from tests.swap_file import swap_file

CODE = "import pandas as pd; frame = pd.DataFrame({'x': range(131_072)})"
WARM = 10
IDLE_SECONDS = 1.0
DEADLINE_SECONDS = 120
MOST_AFTER_USE, MOST_IDLE = 30e6, 3e6


def run(service: RunningService, environments_dir: Path, *, rounds: int = 8) -> str:
    service.stop()
    service.start(idle_memory_seconds=IDLE_SECONDS)
    with (
        swap_file(1024),
        httpx.Client(base_url=service.url, headers={"Authorization": f"Bearer {service.token}"}, timeout=300) as http,
    ):
        found = [_measure(http) for _ in range(rounds)]
        service.stop()  # before the swap goes, which would bring all of it back
    used, idle, first, warm = (statistics.median(column) for column in zip(*found, strict=True))
    return (
        f"{used / 1e6:.1f} MB after use (at most {MOST_AFTER_USE / 1e6:.0f}), {idle / 1e6:.1f} MB idle"
        f" (at most {MOST_IDLE / 1e6:.0f}); first `pass` after that {first * 1e3:.0f} ms, warm {warm * 1e3:.1f} ms"
    )


def _measure(http: httpx.Client) -> tuple[float, float, float, float]:
    """One session: bytes after use, bytes when idle, seconds of the first `pass` then, seconds of a warm one."""
    session = str(http.post("/v1/sessions", json={}).raise_for_status().json()["id"])
    _time(http, session, CODE)
    warm = statistics.median(_time(http, session, "pass") for _ in range(WARM))
    used = _proportional_bytes(session)
    give_up = time.monotonic() + DEADLINE_SECONDS
    while http.get(f"/v1/sessions/{session}").json()["memory"] != "paged_out":
        if time.monotonic() > give_up:
            raise TimeoutError("the session was not paged out")
        time.sleep(0.05)
    idle = _proportional_bytes(session)
    first = _time(http, session, "pass")
    http.delete(f"/v1/sessions/{session}").raise_for_status()
    return used, idle, first, warm


def _time(http: httpx.Client, session: str, code: str) -> float:
    began = time.perf_counter()
    done = http.post(f"/v1/sessions/{session}/executions", json={"code": code}).raise_for_status().json()
    if done["status"] != "ok":
        raise RuntimeError(done)
    return time.perf_counter() - began


def _proportional_bytes(session: str) -> int:
    """What the processes of a sandbox hold, each page shared out among those that have it."""
    processes = {line for group in find(session) for line in (group / "cgroup.procs").read_text().split()}
    rows = [row.split() for each in processes for row in Path(f"/proc/{each}/smaps_rollup").read_text().splitlines()]
    return sum(int(row[1]) << 10 for row in rows if row[0] == "Pss:")
