"""Waiting for what a service does in its own time."""

from __future__ import annotations

import time
from collections.abc import Callable


def eventually(holds: Callable[[], object], deadline_seconds: float = 120) -> None:
    """Look until it holds; fails after the deadline."""
    give_up = time.monotonic() + deadline_seconds
    while not holds():
        assert time.monotonic() < give_up, "it did not come to hold"
        time.sleep(0.1)
