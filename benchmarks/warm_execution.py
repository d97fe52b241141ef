"""`pass` through REST on a kept-alive connection, against the same message sent raw over ZMQ to the same kernel."""

from __future__ import annotations

import statistics
import time
from pathlib import Path

import httpx

from benchmarks.raw_kernel import RawKernel
from tests.running_service import RunningService

ROUNDS = 400
WARM_UP = 50


def run(service: RunningService, environments_dir: Path) -> str:
    with httpx.Client(base_url=service.url, headers={"Authorization": f"Bearer {service.token}"}, timeout=60) as http:
        session = http.post("/v1/sessions", json={}).raise_for_status().json()
        path = f"/v1/sessions/{session['id']}/executions"
        with RawKernel(_connection_file(session["id"])) as kernel:
            raw, rest = [], []
            for round_number in range(ROUNDS + WARM_UP):
                first = time.perf_counter()
                kernel.execute("pass")
                second = time.perf_counter()
                answer = http.post(path, json={"code": "pass"})
                third = time.perf_counter()
                assert answer.json()["status"] == "ok"
                if round_number >= WARM_UP:
                    raw.append(second - first)
                    rest.append(third - second)
        http.delete(f"/v1/sessions/{session['id']}").raise_for_status()
    more = (statistics.median(rest) - statistics.median(raw)) * 1000
    return (
        f"raw {statistics.median(raw) * 1000:.2f} ms, through REST {statistics.median(rest) * 1000:.2f} ms (p50 of"
        f" {ROUNDS}); {more:.2f} ms over raw (at most 2)"
    )


def _connection_file(session_id: str) -> Path:
    found = list(Path("/run/sandcell-test").glob(f"*/{session_id}/kernel/g1.json"))
    assert found, "the session's socket directory was not found"
    return found[0]
