"""Threads that touch files as the user, so that the kernel of the host checks every access as if user code had made it.

A thread's file system uid and gid are its own (`setfsuid` of libc is a plain system call); setting them to the user's
also takes this thread's capabilities over files. gVisor has no such ids: there the thread's effective ids are set, by
plain system calls too, since libc's would set those of every thread. Real and saved ids stay root's, so that the user
can neither signal nor trace the thread.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

THREADS = 4
_SETRESUID = {"x86_64": 117, "aarch64": 147}
_SETRESGID = {"x86_64": 119, "aarch64": 149}
Result = TypeVar("Result")


class UserThreads:
    """Runs blocking functions with the user's identity. All threads start at once: later, no process might fit."""

    def __init__(self, user: int) -> None:
        self._pool = ThreadPoolExecutor(THREADS, "files", initializer=assume, initargs=(user,))
        barrier = threading.Barrier(THREADS, timeout=10)
        for started in [self._pool.submit(barrier.wait) for _ in range(THREADS)]:
            started.result()

    def submit(self, function: Callable[[], object]) -> None:
        """Run it some time soon; its result is not waited for."""
        self._pool.submit(function)

    async def run(self, function: Callable[..., Result], *arguments: Any) -> Result:
        """Run it on one of the threads."""
        return await asyncio.get_running_loop().run_in_executor(self._pool, function, *arguments)


def assume(user: int) -> None:
    """Make the user's identity this thread's for all it does with files; raises when it did not take."""
    libc = ctypes.CDLL(None)
    libc.setfsgid(user)
    libc.setfsuid(user)
    if libc.setfsuid(-1) == user and libc.setfsgid(-1) == user:
        return
    libc.syscall(_SETRESGID[os.uname().machine], -1, user, -1)
    act_as(user)
    if os.geteuid() != user or os.getegid() != user:
        raise PermissionError(f"cannot act as user {user}")


def act_as(user: int) -> None:
    """Make it this thread's effective user, by the plain system call: libc's would change every thread."""
    ctypes.CDLL(None).syscall(_SETRESUID[os.uname().machine], -1, user, -1)
