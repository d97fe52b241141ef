"""How long programs waited for memory is read as Linux says it, of one that thrashes in a group of its own."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from kernels.host_memory import HostMemory

pytestmark = [pytest.mark.long, pytest.mark.timeout(300)]
GROUPS = Path("/sys/fs/cgroup")
UNIFIED = GROUPS if (GROUPS / "cgroup.controllers").exists() else GROUPS / "unified"
LIMIT = ("memory.max", UNIFIED) if UNIFIED == GROUPS else ("memory.limit_in_bytes", GROUPS / "memory")
THRASH = """
import mmap, sys
with open(sys.argv[1], 'rb') as file:
    pages = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
while True:
    for start in range(0, len(pages), 4096):
        pages[start]
"""


@pytest.fixture
def group() -> Iterator[Path]:
    """A group whose memory is bounded at 24 MB, and which has its own pressure."""
    name = f"sandcell-thrash-{os.getpid()}"
    made = list(dict.fromkeys([LIMIT[1] / name, UNIFIED / name]))
    for each in made:
        each.mkdir()
    try:
        if not (made[-1] / "memory.pressure").exists():
            pytest.skip("this kernel does not say how long programs wait for memory (PSI)")
        (made[0] / LIMIT[0]).write_text(str(24 << 20))
        yield made[-1]
    finally:
        for each in made:
            each.rmdir()


def test_programs_that_wait_for_memory_are_seen(tmp_path: Path, group: Path) -> None:
    """The file is larger than what may be held of it; nothing of it is held by anybody else."""
    large = tmp_path / "large"
    with large.open("wb") as file:
        file.write(os.urandom(64 << 20))
        file.flush()
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    (tmp_path / "pressure").mkdir()
    (tmp_path / "pressure" / "memory").symlink_to(group / "memory.pressure")
    meminfo = tmp_path / "meminfo"
    meminfo.write_text("MemTotal: 1000 kB\nMemAvailable: 100 kB\n")
    host = HostMemory(tmp_path)
    assert (host.pressure_percent(), host.stalled_percent()) == (0.0, 0.0)
    join = f'for g in {LIMIT[1] / group.name} {group}; do echo $$ > $g/cgroup.procs; done; exec "$@"'
    thrashing = subprocess.Popen(["sh", "-c", join, "sh", sys.executable, "-c", THRASH, str(large)])
    try:
        until = time.monotonic() + 240
        while host.stalled_percent() < 10 and time.monotonic() < until:
            time.sleep(0.5)
        assert host.pressure_percent() >= host.stalled_percent() >= 10
        meminfo.write_text("MemTotal: 1000 kB\nMemAvailable: 900 kB\n")
        assert host.stalled_percent() == 0.0, "it has come to its own limit: the host has enough"
    finally:
        thrashing.kill()
        thrashing.wait(60)
