"""The clock that services live by: wall time and sleeping, passed in so that tests can turn it."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Protocol

from kernel_gateway.storage.columns import micros
from sandcell.models.model import timestamp

_MOST_SHOWN = 256
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Clock(Protocol):
    """Wall time in seconds since the epoch, and sleep, which passes whatever the wall time is set to."""

    def now(self) -> float: ...

    def stepped(self) -> float:
        """By how many seconds the wall time was set forward, or back when negative, since this clock was made."""

    async def sleep(self, seconds: float) -> None: ...


class SystemClock:
    """The machine's clock, in whole microseconds: a time is shown the same before and after it was stored."""

    def __init__(self) -> None:
        self._ahead = _compute_ahead()

    def now(self) -> float:
        return round(time.time(), 6)

    def stepped(self) -> float:
        return _compute_ahead() - self._ahead

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


def _compute_ahead() -> float:
    """Wall time less what has passed since the host began; suspended time counts in both."""
    return time.time() - time.clock_gettime(time.CLOCK_BOOTTIME)


@lru_cache(_MOST_SHOWN)
def rfc3339(moment: float) -> str:
    """An epoch time as the models carry it: the microsecond that the tables hold, by whatever clock it was read.

    An answer, its events and its record say the same few times again.
    """
    return timestamp(_EPOCH + timedelta(microseconds=micros(moment)))


def rfc3339_or_none(moment: float | None) -> str | None:
    return None if moment is None else rfc3339(moment)
