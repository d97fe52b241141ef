"""What a sandbox uses, read from either kind of control group."""

from __future__ import annotations

from pathlib import Path

from kernels.guest.server.usage_routes import measure

LEGACY = {
    "memory/memory.usage_in_bytes": "5000\n",
    "memory/memory.max_usage_in_bytes": "6000\n",
    "memory/memory.limit_in_bytes": "9223372036854771712\n",
    "memory/memory.stat": "cache 100\nrss 4000\nshmem 50\n",
    "memory/memory.oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n",
    "cpuacct/cpuacct.usage": "1500000000\n",
    "pids/pids.current": "7\n",
}
UNIFIED = {
    "memory.current": "5000\n",
    "memory.peak": "6000\n",
    "memory.max": "max\n",
    "memory.stat": "anon 3000\nfile 10\nkernel 1000\nshmem 50\n",
    "memory.events": "low 0\noom 3\noom_kill 2\n",
    "cpu.stat": "usage_usec 1500000\nuser_usec 1\n",
    "pids.current": "7\n",
}
EXPECTED = {
    "memory": 5000,
    "memory_peak": 6000,
    "memory_limit": 0,
    "memory_held": 4050,
    "cpu_seconds": 1.5,
    "pids": 7,
    "oom_kills": 2,
}


def write(top: Path, files: dict[str, str]) -> str:
    for name, content in files.items():
        (top / name).parent.mkdir(exist_ok=True)
        (top / name).write_text(content)
    return str(top)


def test_both_versions_say_the_same(tmp_path: Path) -> None:
    for name, files in (("legacy", LEGACY), ("unified", UNIFIED)):
        (tmp_path / name).mkdir()
        assert measure(write(tmp_path / name, files)) == EXPECTED


def test_what_cannot_be_read_is_nothing(tmp_path: Path) -> None:
    assert set(measure(str(tmp_path)).values()) == {0}
