"""Memory of the service process with fifty idle sessions, over the same process without any."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx

from tests.running_service import RunningService

SETTLE_SECONDS = 5


def run(service: RunningService, environments_dir: Path, *, rounds: int = 50) -> str:
    with httpx.Client(base_url=service.url, headers={"Authorization": f"Bearer {service.token}"}, timeout=300) as http:
        _one_session(http, stop=True)
        before = read_private_bytes(service.service_pid)
        with ThreadPoolExecutor(4) as threads:
            sessions = list(threads.map(lambda _: _one_session(http, stop=False), range(rounds)))
        time.sleep(SETTLE_SECONDS)
        after = read_private_bytes(service.service_pid)
        for session in sessions:
            http.delete(f"/v1/sessions/{session}").raise_for_status()
    each = (after - before) / rounds / 1e6
    return (
        f"service {before / 1e6:.0f} MB alone, {after / 1e6:.0f} MB with {rounds} idle sessions;"
        f" {each:.2f} MB each (at most 1)"
    )


def _one_session(http: httpx.Client, *, stop: bool) -> str:
    session = str(http.post("/v1/sessions", json={}).raise_for_status().json()["id"])
    http.post(f"/v1/sessions/{session}/executions", json={"code": "1"}).raise_for_status()
    if stop:
        http.delete(f"/v1/sessions/{session}").raise_for_status()
    return session


def read_private_bytes(pid: int) -> int:
    """Private memory of a process (what it alone uses), in bytes."""
    rows = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return sum(int(row.split()[1]) * 1024 for row in rows if row.startswith(("Private_Clean:", "Private_Dirty:")))
