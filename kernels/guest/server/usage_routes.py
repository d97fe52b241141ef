"""What the sandbox uses, by its own control group: for a gateway that cannot look at that group from outside.

What is said here is the sandbox's own word. The gateway shows it and warns by it; it bounds nothing.
"""

from __future__ import annotations

import os

from .handler import Handler

TOP = "/sys/fs/cgroup"
NO_LIMIT = 1 << 50
LEGACY = {  # version 1: by controller
    "memory": "memory/memory.usage_in_bytes",
    "memory_peak": "memory/memory.max_usage_in_bytes",
    "memory_limit": "memory/memory.limit_in_bytes",
    "pids": "pids/pids.current",
}
UNIFIED = {
    "memory": "memory.current",
    "memory_peak": "memory.peak",
    "memory_limit": "memory.max",
    "pids": "pids.current",
}


class UsageHandler(Handler):
    """GET /v1/usage: memory in bytes, processor time in seconds, processes, kills for want of memory."""

    def get(self) -> None:
        self.answer(measure(TOP))


def measure(top: str) -> dict[str, float]:
    """Counters of the control group that is mounted there; what cannot be read is 0."""
    legacy = os.path.isdir(f"{top}/memory")
    found: dict[str, float] = {name: _number(f"{top}/{file}") for name, file in (LEGACY if legacy else UNIFIED).items()}
    if legacy:
        statistics = _table(f"{top}/memory/memory.stat")
        found["memory_held"] = statistics.get("rss", 0) + statistics.get("shmem", 0)
        found["cpu_seconds"] = _number(f"{top}/cpuacct/cpuacct.usage") / 1e9
        found["oom_kills"] = _table(f"{top}/memory/memory.oom_control").get("oom_kill", 0)
    else:
        statistics = _table(f"{top}/memory.stat")
        found["memory_held"] = sum(statistics.get(name, 0) for name in ("anon", "shmem", "kernel"))
        found["cpu_seconds"] = _table(f"{top}/cpu.stat").get("usage_usec", 0) / 1e6
        found["oom_kills"] = _table(f"{top}/memory.events").get("oom_kill", 0)
    return found


def _number(path: str) -> int:
    try:
        with open(path, "rb") as file:
            found = int(file.read())
    except (OSError, ValueError):  # missing, or `max`
        return 0
    return found if found < NO_LIMIT else 0


def _table(path: str) -> dict[str, int]:
    try:
        with open(path, "rb") as file:
            rows = [line.split() for line in file]
    except OSError:
        return {}
    return {row[0].decode(): int(row[1]) for row in rows if len(row) == 2 and row[1].isdigit()}
