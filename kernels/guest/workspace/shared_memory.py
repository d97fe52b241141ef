"""System V shared memory that no process has attached any more: it outlives its processes and would keep its memory.

Only its owner may remove it, so the calling thread is the user for that moment; its real and saved ids stay root's.
"""

from __future__ import annotations

import ctypes

from .identity import act_as

TABLE = "/proc/sysvipc/shm"
IPC_RMID = 0


def release(user: int) -> None:
    """Remove every segment without a process; one that resists stays. Call it in a thread of its own."""
    left = _left()
    if not left:
        return
    libc = ctypes.CDLL(None)
    act_as(user)
    for segment in left:
        libc.shmctl(segment, IPC_RMID, None)
    act_as(0)


def _left() -> list[int]:
    """The segments' numbers."""
    try:
        with open(TABLE, "rb") as table:  # as text it would import a codec, which the user may not be able to read
            rows = [line.split() for line in table][1:]
    except OSError:
        return []
    return [int(row[1]) for row in rows if row[6] == b"0"]
