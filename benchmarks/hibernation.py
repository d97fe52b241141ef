"""Hibernated sessions with frames: how long the first code takes that wakes one, with a warm pool and without.

Under gVisor, where it is installed, kept as processes, and as variables, which wake from a warm pool: of a sandbox in
which something listens.

Beside it: what each has on disk, the time of hibernating, the start of a session with its first `pass`, and what of the
time is the import of pandas.
"""

from __future__ import annotations

import shutil
import statistics
import time
from pathlib import Path

import httpx

from tests.running_service import RunningService

TABLE = """
[plain]
image = "python"
memory_mb = 8000
storage_mb = 5000
keep_variables_mb = 1500

[pooled]
image = "python"
memory_mb = 8000
storage_mb = 5000
keep_variables_mb = 1500
warm = 2
"""
GVISOR = """
[gvisor]
image = "python"
runtime = "runsc"
memory_mb = 8000
storage_mb = 5000
keep_variables_mb = 1500
warm = 2
"""
LISTEN = "import socket; listening = socket.socket(); listening.bind(('127.0.0.1', 5000)); listening.listen()"
CODE = "import numpy, pandas\nframe = pandas.DataFrame({{str(n): numpy.random.rand({0} * 12_500) for n in range(10)}})"
CHECK = "assert frame.shape == ({0} * 12_500, 10)"
SIZES_MB = (10, 100, 1000)
MOST_SECONDS = 1.0
POOLED = ("pooled", "gvisor")
POOL_SECONDS = 300.0


def run(service: RunningService, environments_dir: Path, *, rounds: int = 5) -> str:
    file = service.data_dir / "environments.toml"
    gvisor = shutil.which("runsc") is not None
    file.write_text(TABLE + GVISOR * gvisor)
    service.stop()
    service.start(environments_file=file)
    headers = {"Authorization": f"Bearer {service.token}"}
    told = []
    with httpx.Client(base_url=service.url, headers=headers, timeout=300) as http:
        for size_mb in SIZES_MB if rounds > 2 else SIZES_MB[:1]:
            for environment in ("pooled", "plain", *(("gvisor", "gvisor, variables") if gvisor else ())):
                count = rounds if size_mb < SIZES_MB[-1] else min(rounds, 2)
                found = [_measure(service, http, environment, size_mb) for _ in range(count)]
                start, imports, down, wake, size = (statistics.median(column) for column in zip(*found, strict=True))
                told.append(
                    f"{size_mb:,} MB, {environment}: wake {wake * 1e3:.0f} ms, hibernate {down * 1e3:.0f} ms,"
                    f" start {start * 1e3:.0f} ms, import of pandas {imports * 1e3:.0f} ms, {size / 1e6:.1f} MB each,"
                    f" {1e9 / size:.1f} sessions per GB of disk"
                )
    return f"with frames (a wake of 100 MB: at most {MOST_SECONDS * 1e3:.0f} ms); " + "; ".join(told)


def _measure(
    service: RunningService, http: httpx.Client, environment: str, size_mb: int
) -> tuple[float, float, float, float, float]:
    """Seconds of a start, of the import, of hibernating, of the code that wakes it, and bytes on disk."""
    _await_pools(http)
    began = time.perf_counter()
    name, _, as_variables = environment.partition(", ")
    session = str(http.post("/v1/sessions", json={"environment": name}).raise_for_status().json()["id"])
    _run(http, session, "pass")
    start = time.perf_counter() - began
    if as_variables:
        _run(http, session, LISTEN)
    imports = _run(http, session, "import pandas")
    _run(http, session, CODE.format(size_mb))
    before = set(_list_files(service))
    began = time.perf_counter()
    report = http.post(f"/v1/sessions/{session}/hibernate").raise_for_status().json()["hibernated"]
    down = time.perf_counter() - began
    if (report["kept_as"] == "processes") != (environment == "gvisor"):
        raise RuntimeError(report)
    size = sum(each.stat().st_blocks * 512 for each in _list_files(service) if each not in before)
    size += report["image_bytes"]
    _await_pools(http)
    wake = _run(http, session, CHECK.format(size_mb))
    http.delete(f"/v1/sessions/{session}").raise_for_status()
    return start, imports, down, wake, float(size)


def _list_files(service: RunningService) -> list[Path]:
    """Variables of hibernated sessions in the store."""
    return [each for each in (service.data_dir / "store" / "variables").rglob("*") if each.is_file()]


def _await_pools(http: httpx.Client) -> None:
    """Nothing is being started."""
    until = time.monotonic() + POOL_SECONDS
    while time.monotonic() < until:
        found = [http.get(f"/v1/environments/{each}") for each in POOLED]
        pools = [each.json()["pool"] for each in found if each.is_success]  # gVisor may not be installed
        if all(pool is not None and pool["ready"] >= pool["target"] and not pool["starting"] for pool in pools):
            return
        time.sleep(0.1)
    raise RuntimeError("the pools are not filled")


def _run(http: httpx.Client, session: str, code: str) -> float:
    began = time.perf_counter()
    done = http.post(f"/v1/sessions/{session}/executions", json={"code": code}).raise_for_status().json()
    if done["status"] != "ok":
        raise RuntimeError(done)
    return time.perf_counter() - began
