"""The error that ends a cell before the sandbox's memory runs out, and what the guest wrote down of why.

Loaded by `kernel_main.py` from its directory. The guest writes the file and then signals the kernel; see `control.py`.
"""

from __future__ import annotations

import json
import os
import time
import types

FRESH_SECONDS = 10.0
"""A file that is older was for code that has ended meanwhile."""
MOST_BYTES = 1_000
MEGABYTE = 1 << 20


class MemoryGuard(MemoryError):
    """The sandbox has nearly no memory left: code that holds much of it is to let go of some, or end."""


MemoryGuard.__module__ = "builtins"  # where tracebacks look for names that need no module before them


def take(path: str) -> MemoryGuard | None:
    """The error to raise, once for each time that the guest says so; None when it has not."""
    try:
        with open(path, "rb") as file:
            age, content = time.time() - os.fstat(file.fileno()).st_mtime, file.read(MOST_BYTES)
        os.unlink(path)
        said = json.loads(content)
        held, limit = int(said["held_bytes"]), int(said["limit_bytes"])
    except (OSError, ValueError, TypeError, KeyError):
        return None
    if not -FRESH_SECONDS < age < FRESH_SECONDS:
        return None
    return MemoryGuard(
        f"the session uses {held // MEGABYTE:,} MB of its {limit // MEGABYTE:,} MB of memory, and the kernel would soon"
        " be killed. The code was interrupted; variables are kept. Delete what is not needed, or work in smaller parts"
    )


def cut_last_frame(traceback: types.TracebackType | None, code: types.CodeType) -> None:
    """Take the frame that runs this code off the end of a traceback."""
    while traceback is not None and (last := traceback.tb_next) is not None:
        if last.tb_next is None and last.tb_frame.f_code is code:
            traceback.tb_next = None
        traceback = last
