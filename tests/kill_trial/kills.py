"""What is done to the service: killed, its launcher too or alone, both at once, or stopped for a while as by a hang."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from contextlib import suppress

import httpx

from tests.running_service import RunningService

GUARD_SECONDS = 300
HANGS_SECONDS = (0.5, 6.0)


KINDS = {"service": 5, "launcher": 2, "both": 2, "hang": 1}
"""What may be done, and how often each."""


class Kills:
    """Harms one service, each time in one of these ways, and has it come back."""

    def __init__(self, service: RunningService, chance: random.Random, kinds: Sequence[str]) -> None:
        self._service, self._chance = service, chance
        self.counts = dict.fromkeys(kinds, 0)

    def one(self) -> None:
        """One harm, drawn by chance. Most come when the service serves, some when it has hardly begun to."""
        kind = self._chance.choices(tuple(self.counts), [KINDS[kind] for kind in self.counts])[0]
        harm: Callable[[], None] = getattr(self, f"_harm_{kind}")
        harm()
        self.counts[kind] += 1
        if self._chance.random() < 0.8:
            self.revive()

    def revive(self) -> None:
        """Wait until it serves, as what supervises it would: a launcher that has ended is started again."""
        give_up = time.monotonic() + GUARD_SECONDS
        while not self._answers():
            assert time.monotonic() < give_up, "it does not come back:\n" + "".join(self._service.output[-50:])
            if not self._service.running:
                with suppress(AssertionError, subprocess.TimeoutExpired):  # it has ended by itself
                    self._service.wait()
                self._service.start()
            time.sleep(0.05)

    def _answers(self) -> bool:
        try:
            return bool(self._service.url) and httpx.get(f"{self._service.url}/readyz", timeout=30).is_success
        except httpx.HTTPError:
            return False

    def _serving(self) -> int | None:
        try:
            return self._service.find_service_pid() if self._service.running else None
        except OSError:  # the launcher has just ended
            return None

    def _harm_service(self) -> None:
        _send(self._serving(), signal.SIGKILL)

    def _harm_launcher(self) -> None:
        if self._service.running:
            self._service.kill()
        self.revive()

    def _harm_both(self) -> None:
        """Neither has a moment in which the other is gone."""
        serving = self._serving()
        if self._service.running:
            os.kill(self._service.pid, signal.SIGSTOP)
        _send(serving, signal.SIGKILL)
        self._harm_launcher()

    def _harm_hang(self) -> None:
        serving = self._serving()
        _send(serving, signal.SIGSTOP)
        time.sleep(self._chance.uniform(*HANGS_SECONDS))
        _send(serving, signal.SIGCONT)


def _send(process: int | None, number: signal.Signals) -> None:
    if process is not None:
        with suppress(ProcessLookupError):
            os.kill(process, number)
