"""The control group of the service: what it forks stays in it, is counted, and ends with it.

The death of a process does not end its children. Those of a service that was taken over would go on with its
sockets and files into the next life; without privileges none of them can leave the group.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from pathlib import Path
from typing import Final

from kernels.errors import SandboxFailed

_MOST_TASKS: Final = 4096
_END_SECONDS: Final = 10.0
_PAUSE_SECONDS: Final = 0.01


class NoGroup:
    """Where the launcher may make none: the service and what it forks end with the container that they are in."""

    entrance = None

    def make(self) -> None:
        """Nothing is to be made."""

    def end(self) -> None:
        """Nor ended."""


class ServiceGroup:
    """The group at `directory`, which is in a hierarchy that counts processes."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    @property
    def entrance(self) -> Path:
        """A process that writes 0 to this file is in the group."""
        return self._directory / "cgroup.procs"

    def make(self) -> None:
        """Have an empty group: what an earlier life left in it is ended. Raises `SandboxFailed`."""
        self.end()
        self._directory.mkdir(parents=True, exist_ok=True)
        self._allow(_MOST_TASKS)

    def end(self) -> None:
        """End all that is in the group and remove it; absent is fine. Raises `SandboxFailed` when a process stays.

        Groups that were made below it go too. One that is made again and again is left, once it is empty.
        """
        give_up = time.monotonic() + _END_SECONDS
        self._allow(0)
        while self._directory.exists():
            for group in self._groups():
                for process in _processes(group):
                    _kill(process, group)
                with contextlib.suppress(OSError):
                    group.rmdir()
            if time.monotonic() > give_up:
                left = sorted(process for group in self._groups() for process in _processes(group))
                if left:
                    raise SandboxFailed(f"processes of the service do not end: {left}")
                return
            if self._directory.exists():
                time.sleep(_PAUSE_SECONDS)

    def _groups(self) -> list[Path]:
        """The group and all below it, deepest first."""
        return [Path(place) for place, _, _ in os.walk(self._directory, topdown=False)]

    def _allow(self, tasks: int) -> None:
        """Bound what may be forked; on cgroup v2 the file is there only once the controller is handed down."""
        with contextlib.suppress(FileNotFoundError):
            (self._directory / "pids.max").write_text(str(tasks))


def _processes(group: Path) -> set[int]:
    try:
        return {int(line) for line in (group / "cgroup.procs").read_text().split()}
    except OSError:
        return set()


def _kill(process: int, group: Path) -> None:
    """Kill it if it is still in the group: its number may be another's by now."""
    try:
        descriptor = os.pidfd_open(process)
    except OSError:  # it has ended, or is in another namespace than this one
        return
    try:
        if process in _processes(group):
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(descriptor, signal.SIGKILL)
    finally:
        os.close(descriptor)
