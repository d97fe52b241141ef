"""Processes that are killed at a step of what they do: a child that forks for each order, and the test's side of it.

Forking from a process that has imported everything makes hundreds of kills cheap. An order is a line of JSON; it is
answered with the id of the process, then with how that ended.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import structlog

REPOSITORY = Path(__file__).parents[2]


def die() -> None:
    """No last words."""
    os.kill(os.getpid(), signal.SIGKILL)


def serve(carry_out: Callable[[dict[str, Any]], None]) -> None:
    """Read orders until there are no more; each is carried out in a process of its own."""
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))  # answers alone go out
    for line in sys.stdin:
        order = json.loads(line)
        child = os.fork()
        if not child:
            try:
                carry_out(order)
            except BaseException as error:
                print(repr(error), file=sys.stderr, flush=True)
                os._exit(1)
            os._exit(0)
        print(child, flush=True)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)


class Forked:
    """A program that calls `serve`, by its module's name."""

    def __init__(self, module: str) -> None:
        program = [sys.executable, "-m", module]
        self._process = subprocess.Popen(
            program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=REPOSITORY
        )

    def carry_out(self, order: dict[str, Any], begun: Callable[[int], None] = lambda _: None) -> bool:
        """Whether it came to its end, and was not killed; `begun` gets the id of the process."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()
        begun(self._number())
        status = self._number()
        assert status in (0, -signal.SIGKILL), f"the process ended with {status}; what it said is above"
        return status == 0

    def close(self) -> None:
        self._process.communicate(timeout=120)

    def _number(self) -> int:
        assert self._process.stdout is not None
        return int(self._process.stdout.readline())
