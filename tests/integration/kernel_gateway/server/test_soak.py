"""Sessions come and go; the service's descriptors, threads and memory stay where they were."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.integration.kernel_gateway.server.rest import Rest
from tests.running_service import RunningService

WORK = "x = list(range(1000))\nopen('f', 'w').write('x' * 10_000)\nprint('y' * 1_000)\nsum(x)"


def held(service: RunningService) -> tuple[int, int]:
    """Open descriptors and threads of the service."""
    process = Path(f"/proc/{service.service_pid}")
    return len(list((process / "fd").iterdir())), len(list((process / "task").iterdir()))


def memory(service: RunningService) -> int:
    rows = Path(f"/proc/{service.service_pid}/status").read_text().splitlines()
    return next(int(row.split()[1]) * 1024 for row in rows if row.startswith("VmRSS:"))


def sandboxes(service: RunningService) -> set[str]:
    return {path.name for path in service.data_dir.glob("sandboxes/*")}


def wait_until_removed(service: RunningService, there: set[str]) -> None:
    """Sandboxes of stopped sessions are removed after the answer: wait until no other is left than those."""
    give_up = time.monotonic() + 120
    while left := sandboxes(service) - there:
        assert time.monotonic() < give_up, left
        time.sleep(0.05)


def life(rest: Rest) -> None:
    with rest.session() as session:
        assert session.run(WORK)["status"] == "ok"
        session.run("1 / 0")
        session.works()


@pytest.mark.parametrize(
    ("lives", "at_once"),
    [(5, 2), pytest.param(200, 4, marks=[pytest.mark.long, pytest.mark.timeout(1800)])],
)
def test_what_sessions_took_they_give_back(service: RunningService, rest: Rest, lives: int, at_once: int) -> None:
    there = sandboxes(service)
    with ThreadPoolExecutor(at_once) as threads:
        list(threads.map(lambda _: life(rest), range(at_once * 2)))
        wait_until_removed(service, there)
        descriptors, running = held(service)
        before = memory(service)
        list(threads.map(lambda _: life(rest), range(lives)))
    wait_until_removed(service, there)
    more = max(4, lives // 10)  # pools of threads grow as they are used, up to their bounds
    assert held(service)[0] <= descriptors + more
    assert held(service)[1] <= running + more
    assert memory(service) - before < 20_000_000 + 50_000 * lives
