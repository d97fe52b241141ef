"""Processes that make a page or a script of a notebook: other people's parsers over hostile text, apart from all else.

Each has a user of its own, no network, no capabilities, and of the file system what it runs on; it narrows its system
calls itself (`kernels.own_calls`) before it reads. What it has is one stream: a notebook comes in, a view goes out. It
is gone when that is done, when the other end is closed, and at its deadline.
"""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final, Literal

from kernels.cancelling import cancel_all
from kernels.errors import LauncherRefused
from kernels.launcher.ends import await_end, await_hangup
from kernels.launcher.handover import Confinement, in_memory
from kernels.launcher.plan import ViewerPlan

Form = Literal["html", "py"]
_CONFINE: Final = str(Path(__file__).with_name("confine.py"))
_Start = Callable[[list[str], socket.socket], subprocess.Popen[bytes]]


class Viewers:
    """A few at once; further ones wait. `start` makes the process of a command, on one end of a stream."""

    def __init__(self, plan: ViewerPlan, start: _Start) -> None:
        self._plan = plan
        self._start = start
        self._free = asyncio.Semaphore(plan.at_once)
        self._watching: set[asyncio.Task[None]] = set()

    async def start(self, form: Form) -> socket.socket:
        """The other end of the stream of a new process; raises `OSError`, `LauncherRefused`."""
        await self._free.acquire()
        try:
            ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
            try:
                child = self._start([*self._plan.command, form], theirs)
            except BaseException:
                ours.close()
                theirs.close()
                raise
        except BaseException:
            self._free.release()
            raise
        task = asyncio.create_task(self._watch(child, theirs))
        self._watching.add(task)

        def end(_: asyncio.Task[None]) -> None:
            """Also of one that was given up before anything watched it."""
            self._watching.discard(task)
            child.kill()
            child.wait()
            theirs.close()  # so that the reader of the view sees its end
            self._free.release()

        task.add_done_callback(end)
        return ours

    async def aclose(self) -> None:
        """End those that run."""
        await cancel_all(self._watching)

    async def _watch(self, child: subprocess.Popen[bytes], theirs: socket.socket) -> None:
        """Return when the process is to be ended, if it has not."""
        waits = [asyncio.create_task(await_end(child)), asyncio.create_task(await_hangup(theirs))]
        try:
            await asyncio.wait(waits, timeout=self._plan.seconds, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for each in waits:
                each.cancel()


def start_confined(plan: ViewerPlan, group: str) -> _Start:
    """How the launcher starts one: as `confine` does, in the service's control group."""

    def start(command: list[str], theirs: socket.socket) -> subprocess.Popen[bytes]:
        confinement = Confinement(
            uid=plan.uid,
            command=command,
            directory="/",
            reach=plan.reach,
            views="",
            group=group,
            parent=os.getpid(),
            refusal=1,
            apart=True,
        )
        said = in_memory("sandcell-confinement", confinement.encode())
        try:
            return _spawn([sys.executable, "-I", _CONFINE, str(said)], theirs, said)
        finally:
            os.close(said)

    return start


def refuse(_command: list[str], _theirs: socket.socket) -> subprocess.Popen[bytes]:
    """How a launcher without privileges starts one: not at all, since it could set it apart from nothing."""
    raise LauncherRefused("a service that was not started as root has nothing to make views of notebooks in")


def start_here(command: list[str], theirs: socket.socket) -> subprocess.Popen[bytes]:
    """How a process without a launcher starts one: as a child that is itself, but for the calls it narrows."""
    return _spawn(command, theirs)


def _spawn(command: list[str], theirs: socket.socket, *handed: int) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        command,
        stdin=theirs.fileno(),
        stdout=theirs.fileno(),
        stderr=subprocess.DEVNULL,
        cwd="/",
        env={"PATH": "/usr/bin:/bin", "HOME": "/nonexistent", "LANG": "C.UTF-8"},
        pass_fds=handed,
        start_new_session=True,
    )
