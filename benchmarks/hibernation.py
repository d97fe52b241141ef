"""Hibernated sessions with 100 MB of frames: how long the first code takes that wakes one, and what each has on disk.

Beside it: the start of a session with its first `pass`, and what of the time is the import of pandas.
"""

from __future__ import annotations

import statistics
import time
from pathlib import Path

import httpx

from tests.running_service import RunningService

CODE = "import numpy, pandas\nframe = pandas.DataFrame({str(n): numpy.random.rand(1_250_000) for n in range(10)})"
CHECK = "assert frame.shape == (1_250_000, 10)"
MOST_SECONDS = 1.0


def run(service: RunningService, environments_dir: Path, *, rounds: int = 5) -> str:
    headers = {"Authorization": f"Bearer {service.token}"}
    with httpx.Client(base_url=service.url, headers=headers, timeout=300) as http:
        found = [_measure(service, http) for _ in range(rounds)]
    start, imports, down, wake, size = (statistics.median(column) for column in zip(*found, strict=True))
    return (
        f"wake with 100 MB of frames {wake * 1e3:.0f} ms (at most {MOST_SECONDS * 1e3:.0f}),"
        f" hibernate {down * 1e3:.0f} ms;"
        f" a start {start * 1e3:.0f} ms, the import of pandas {imports * 1e3:.0f} ms;"
        f" {size / 1e6:.1f} MB each, {1e9 / size:.1f} sessions per GB of disk"
    )


def _measure(service: RunningService, http: httpx.Client) -> tuple[float, float, float, float, float]:
    """Seconds of a start, of the import, of hibernating, of the code that wakes it, and bytes on disk."""
    began = time.perf_counter()
    session = str(http.post("/v1/sessions", json={}).raise_for_status().json()["id"])
    _run(http, session, "pass")
    start = time.perf_counter() - began
    imports = _run(http, session, "import pandas")
    _run(http, session, CODE)
    began = time.perf_counter()
    http.post(f"/v1/sessions/{session}/hibernate").raise_for_status()
    down = time.perf_counter() - began
    places = (service.data_dir / "store" / "variables" / session, service.data_dir / "sandboxes" / session)
    files = [each for place in places for each in place.rglob("*") if each.is_file()]
    size = sum(each.stat().st_blocks * 512 for each in files)
    wake = _run(http, session, CHECK)
    http.delete(f"/v1/sessions/{session}").raise_for_status()
    return start, imports, down, wake, float(size)


def _run(http: httpx.Client, session: str, code: str) -> float:
    began = time.perf_counter()
    done = http.post(f"/v1/sessions/{session}/executions", json={"code": code}).raise_for_status().json()
    if done["status"] != "ok":
        raise RuntimeError(done)
    return time.perf_counter() - began
