"""The log of one running execution: numbered events, bounded in bytes, with any number of followers.

A follower reads from the log itself, so a slow one costs nothing: when it falls behind what is kept, it reads how
much it missed by a `truncated` event.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Iterable
from typing import Any

import msgspec

from sandcell.models.executions import Event

EVENT_BYTES = 256
"""What a kept event is counted as besides its data."""


class EventLog:
    """Sequence numbers start after `base`; the oldest events go first when `limit_bytes` is passed.

    A log that ends with its process has a base that rises from one to the next: whoever asks for what came after an id
    of an earlier one reads that events are missing.
    """

    def __init__(self, limit_bytes: int, base: int = 0) -> None:
        self.size_bytes = 0
        self.last_sequence = self._base = base
        self.is_rebuilt = False
        """Whether events that followers may have had of an earlier process come once more, with the same numbers."""
        self._again: dict[int, Event] = {}
        """Events that followers have had of an earlier process and that nothing tells again, by their numbers."""
        self._held: list[int] = []
        """Numbers of events that are not durable yet: nothing from the first on is shown."""
        self._limit_bytes = limit_bytes
        self._dropped = base
        self._events: deque[tuple[Event, int]] = deque()
        self._changed: asyncio.Event | None = None
        """Set at the next change; made by the first follower that waits for it."""
        self._closed = False
        self._over = False
        self._end = 0
        """The number of the event that said how it ended."""

    def append(self, event: str, data: dict[str, Any]) -> None:
        """Add an event and wake the followers; a closed log takes no more."""
        if not self._closed:
            self._add(event, data)

    def hold(self, event: str, data: dict[str, Any]) -> int:
        """Add an event that is shown once `show` is called with its number, which is the answer; 0 when it is closed.

        It is one that does not come again by itself when a later process tells the same execution from its start.
        """
        if self._closed:
            return 0
        number = self.last_sequence + 1
        self._held.append(number)
        self._add(event, data)
        return number

    def show(self, number: int) -> None:
        """That event is durable, or cannot be made so."""
        self._held.remove(number)
        self._wake()

    def expect(self, events: Iterable[Event]) -> None:
        """Events that an earlier process has shown: each comes again where its number is reached."""
        self._again.update((each.sequence, each) for each in events)
        self._add_expected()

    def append_late(self, data: dict[str, Any]) -> None:
        """Add what came after the end, until the log is over."""
        if not self._over:
            self._add("late", data)

    def _add(self, event: str, data: dict[str, Any]) -> None:
        self._add_one(event, data)
        self._add_expected()
        self._wake()

    def _add_expected(self) -> None:
        while (each := self._again.pop(self.last_sequence + 1, None)) is not None:
            self._add_one(each.event, each.data)

    def _add_one(self, event: str, data: dict[str, Any]) -> None:
        self.last_sequence += 1
        size = EVENT_BYTES + len(msgspec.json.encode(data))
        self._events.append((Event(self.last_sequence, event, data), size))
        self.size_bytes += size
        while self.size_bytes > self._limit_bytes and len(self._events) > 1:
            self.size_bytes -= self._events.popleft()[1]
            self._dropped += 1

    def close(self) -> None:
        """No more events come but late ones; followers end when they have read the last."""
        if not self._closed:
            self._closed, self._end = True, self.last_sequence
        self._wake()

    def finish(self) -> None:
        """Nothing comes any more: every follower ends."""
        self.close()
        self._over = True

    async def follow(self, after: int, *, late: bool = False) -> AsyncIterator[Event]:
        """Events past sequence `after`, those kept first, then as they come, until the log is closed.

        With `late` until nothing more can come.
        """
        position = self._find_position(after)
        while True:
            while position < (self._held[0] - 1 if self._held else self.last_sequence):
                if position < self._dropped:
                    missed = {"dropped_from": position + 1, "dropped_to": self._dropped}
                    position = self._dropped
                    yield Event(position, "truncated", missed)
                else:
                    event = self._events[position - self._dropped][0]
                    position = event.sequence
                    yield event
            if self._closed and position > self.last_sequence:
                # It has a number of an earlier process that this log never reached: how it ended is told all the same.
                missed = {"dropped_from": min(self._end, self._dropped + 1), "dropped_to": self._end - 1}
                position = self._end - 1
                yield Event(position, "truncated", missed)
                continue
            if not self._held and (self._over or (self._closed and not late)):
                return
            if self._changed is None:
                self._changed = asyncio.Event()
            await self._changed.wait()

    def _find_position(self, after: int) -> int:
        if after <= 0:
            return self._base
        if self.is_rebuilt or after <= self.last_sequence:
            return after
        # Of a log with a base no follower has an id that is still to come: the host's clock was set back.
        return 1 if self._base else self.last_sequence

    def _wake(self) -> None:
        if self._changed is not None:
            self._changed.set()
            self._changed = None
