"""Create a session and get its first result from a warm pool: against a bare `runc run`, and many at once."""

from __future__ import annotations

import asyncio
import statistics
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx

from benchmarks import cold_start
from benchmarks.bounds import at_most
from benchmarks.plain_http import Connection
from kernels.oci import environments
from kernels.oci.cgroups import Cgroups
from tests.running_service import RunningService

BURSTS = (20,)
"""A hundred at once are `bursts`, beside others."""
MOST_RATIO = 0.06
FILL_SECONDS = 600.0
SETTINGS = {
    "keep_variables": "on_idle",
    "invocations_per_second": 10_000,
    "requests_per_second": 100_000,
    "live_sessions": 1_000,
    "sessions_per_principal": 1_000,
    "pool_starts_at_once": 2,
    "pool_memory_mb": 20_000,
}


def run(_service: RunningService, environments_dir: Path, *, rounds: int = 12) -> str:
    """A service for each size of the pool, one after another; two rounds come with a burst of two."""
    ratio, warm, bare = _one_by_one(environments_dir, rounds)
    bursts = [_burst(environments_dir, size) for size in (BURSTS if rounds > 2 else (2,))]
    return (
        f"create to first result from a pool {warm * 1000:.0f} ms, bare runc and kernel {bare * 1000:.0f} ms (p50 of"
        f" {rounds}); {at_most('ratio', ratio, MOST_RATIO)}; {'; '.join(bursts)}"
    )


def _one_by_one(environments_dir: Path, rounds: int) -> tuple[float, float, float]:
    environment = environments.find_installed(environments_dir)["python"]
    bare, warm = [], []
    with WarmService(environments_dir, 2) as service, service.http() as http:
        for _ in range(rounds):
            bare.append(cold_start.measure_bare(environment))
            service.wait_full(http)
            warm.append(cold_start.measure_session(http))
    Cgroups(cold_start.CGROUP).remove_parent()
    ours, theirs = statistics.median(warm), statistics.median(bare)
    return ours / theirs, ours, theirs


def _burst(environments_dir: Path, size: int) -> str:
    taken = measure_burst(environments_dir, size)
    return f"{size} at once: median {statistics.median(taken) * 1000:.0f} ms, the last {max(taken) * 1000:.0f} ms"


def measure_burst(environments_dir: Path, size: int) -> list[float]:
    """Seconds from the request to the first result of each of so many sessions, which a pool has ready."""
    with WarmService(environments_dir, size) as service, service.http() as http:
        service.wait_full(http)
        taken = asyncio.run(create_at_once(service.address, size))
        hits = http.get("/v1/environments/python").json()["pool"]["hits"]
    assert hits == size, f"{hits} of {size} came from the pool"
    return taken


async def create_at_once(address: Mapping[str, Any], size: int) -> list[float]:
    """The same of the service at this address, whose sessions stay."""
    url, headers = address["base_url"], address["headers"]
    callers = await asyncio.gather(*(Connection.connect(url, headers) for _ in range(size)))
    try:
        await asyncio.gather(*(each.ask("GET", "/healthz") for each in callers))  # connections are no part of it
        async with asyncio.timeout(address["timeout"]):
            return await asyncio.gather(*(_create(each) for each in callers))
    finally:
        await asyncio.gather(*(each.aclose() for each in callers))


async def _create(caller: Connection) -> float:
    started = time.perf_counter()
    session = await caller.ask("POST", "/v1/sessions", {})
    outcome = await caller.ask("POST", f"/v1/sessions/{session['id']}/executions", {"code": "1 + 1"})
    taken = time.perf_counter() - started
    assert outcome["outputs"][0]["data"]["text/plain"] == "2"
    return taken


class WarmService:
    """A service whose environment `python` has a pool of that size; `more` declares further ones."""

    def __init__(self, environments_dir: Path, size: int, more: str = "", **settings: object) -> None:
        self._size = size
        self._directory = tempfile.TemporaryDirectory(prefix="scwarm", dir="/tmp")
        file = Path(self._directory.name, "environments.toml")
        file.write_text(f"[python]\nwarm = {size}\n{more}")
        settings = {**SETTINGS, "environments_dir": environments_dir, "environments_file": file, **settings}
        self.service = RunningService(Path(self._directory.name), settings)

    def __enter__(self) -> WarmService:
        self.service.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.service.stop()
        self._directory.cleanup()

    @property
    def address(self) -> dict[str, Any]:
        authorization = {"Authorization": f"Bearer {self.service.token}"}
        return {"base_url": self.service.url, "headers": authorization, "timeout": 600}

    def http(self) -> httpx.Client:
        return httpx.Client(**self.address)

    def wait_full(self, http: httpx.Client) -> None:
        """Until all are ready and nothing starts: filling is no part of what is measured."""
        give_up = time.monotonic() + FILL_SECONDS
        while True:
            pool = http.get("/v1/environments/python").raise_for_status().json()["pool"]
            if pool is not None and pool["ready"] == self._size and not pool["starting"]:
                return
            assert time.monotonic() < give_up, pool
            time.sleep(0.05)
