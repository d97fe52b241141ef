"""The one place that waits for processes: the guest's children and orphans handed to PID 1.

Nothing else calls waitpid, so no exit status is ever taken from under its owner. Spawning and reaping happen on the
loop's thread: a child is always registered before it can be reaped.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


class Exit:
    """How a process ended: an exit code, or the name of the signal that killed it; `shell_code` is either."""

    def __init__(self, wait_status: int) -> None:
        code = os.waitstatus_to_exitcode(wait_status)
        self.exit_code = code if code >= 0 else None
        self.signal = _signal_name(-code) if code < 0 else None
        self.shell_code = code if code >= 0 else 128 - code


class Reaper:
    """Collects every dead child and tells those who asked."""

    def __init__(self) -> None:
        self._watched: dict[int, Callable[[Exit], None]] = {}

    def watch(self, pid: int, on_exit: Callable[[Exit], None]) -> None:
        """Have `on_exit` called once, on the loop, when this child has ended."""
        self._watched[pid] = on_exit

    def reap(self) -> None:
        """Collect all that have ended; called on SIGCHLD, and once when the loop starts."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            on_exit = self._watched.pop(pid, None)
            if on_exit is not None:
                on_exit(Exit(status))


def _signal_name(number: int) -> str:
    import signal  # noqa: PLC0415 - it comes with enumerations, which the start of the first kernel is spared

    try:
        return signal.Signals(number).name
    except ValueError:
        return f"SIG{number}"
