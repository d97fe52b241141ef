"""Ending tasks with a bound: what does not heed its cancellation holds up nobody."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from typing import Any, Final

log = logging.getLogger(__name__)
CANCEL_SECONDS: Final = 10.0
"""How long tasks of this package have to end: all that they wait for heeds a cancellation at once."""


async def cancel_all(
    tasks: Iterable[asyncio.Task[Any] | None], seconds: float = CANCEL_SECONDS
) -> set[asyncio.Task[Any]]:
    """Cancel tasks and wait for their ends, but no longer than this; returns those that go on, which are logged.

    Those are abandoned: they fail when what they work on is closed. What the others have raised is not said again. Not
    for work that takes back what it has half made (a sandbox): that has to be waited for to its end.
    """
    given = {task for task in tasks if task is not None}
    for task in given:
        task.cancel()
    going_on = (await asyncio.wait(given, timeout=seconds))[1] if given else set()
    for task in given - going_on:
        if not task.cancelled():
            task.exception()  # looked at, or asyncio would complain that nobody did
    for task in going_on:
        log.error("task_goes_on %s after %g s", task.get_name(), seconds)
    return going_on
