"""90 MB into a session by one writeFiles and out by six readFiles, through boto3: how fast, and the service's memory.

The memory is the most that the service's process had resident, over what it had before.
"""

from __future__ import annotations

import time
from pathlib import Path

from benchmarks.agentcore_client import Interpreter
from tests.running_service import RunningService

MEGABYTE = 1_000_000
FILES = 6


def run(service: RunningService, environments_dir: Path, *, rounds: int = 15) -> str:
    """`rounds` megabytes in each of six files."""
    interpreter = Interpreter(service)
    session = interpreter.start()
    content = (bytes(range(256)) * 4_000)[:MEGABYTE] * rounds
    names = [f"file-{number}.bin" for number in range(FILES)]
    interpreter.invoke(session, "writeFiles", content=[{"path": "first", "blob": content[:MEGABYTE]}])
    before = _resident(service.service_pid)

    begun = time.perf_counter()
    interpreter.invoke(session, "writeFiles", content=[{"path": name, "blob": content} for name in names])
    write_seconds = time.perf_counter() - begun
    written = _resident(service.service_pid, most=True)
    left = _resident(service.service_pid)

    begun = time.perf_counter()
    for name in names:
        [block] = interpreter.invoke(session, "readFiles", paths=[name])["content"]
        assert block["resource"]["blob"] == content
    read_seconds = time.perf_counter() - begun
    read = _resident(service.service_pid, most=True)
    interpreter.stop(session)
    total = rounds * FILES
    return (
        f"writeFiles of {total} MB {write_seconds:.1f} s and {(written - before) / 1e6:.0f} MB of the service's memory"
        f" at most, readFiles of the same in {FILES} calls {read_seconds:.1f} s and {(read - left) / 1e6:.0f} MB"
    )


def _resident(pid: int, *, most: bool = False) -> int:
    """Resident memory of a process in bytes: now, a reset of its peak, or that peak."""
    name = "VmHWM:" if most else "VmRSS:"
    rows = Path(f"/proc/{pid}/status").read_text().splitlines()
    found = next(int(row.split()[1]) * 1024 for row in rows if row.startswith(name))
    if not most:
        Path(f"/proc/{pid}/clear_refs").write_text("5")
    return found
