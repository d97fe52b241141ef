"""Writes to S3 in a process of their own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.doubles.s3_servers import ACCESS_KEY, BUCKET

OPENING = """
import sys
from workspace_sync.stores.s3.store import S3Store
from workspace_sync.store import FileSource
endpoint, bucket, prefix, file, size, key_id, secret = sys.argv[1:]
store, size = S3Store(bucket, prefix, endpoint_url=endpoint, access_key=(key_id, secret)), int(size)
"""
MEASURED = """
peak = lambda: int(open("/proc/self/status").read().partition("VmHWM:")[2].split()[0]) * 1024
store.check()
before = peak()
{program}
print(peak() - before)
"""
DEADLINE_SECONDS = 120


def on_its_own(program: str, endpoint: str, prefix: str, file: Path, size: int) -> list[str]:
    """The command of a process that runs this program, which knows a `store`, and a `file` and its `size`."""
    return [sys.executable, "-c", OPENING + program, endpoint, BUCKET, prefix, str(file), str(size), *ACCESS_KEY]


def peak_growth(program: str, endpoint: str, prefix: str, file: Path, size: int) -> int:
    """How many bytes more such a process has at its peak because of the program."""
    command = on_its_own(MEASURED.format(program=program), endpoint, prefix, file, size)
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=DEADLINE_SECONDS)
    assert done.returncode == 0, done.stderr
    return int(done.stdout)
