"""The latest messages of one session's kernel, for every client attached to it: one copy each, bounded in bytes. Pure.

Sequence numbers rise by one with every message. When the bound is passed the oldest output goes first; replies and
changes of state stay longer, up to their share, so that a client which comes back late still learns how its requests
ended.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from kernels.message import Message

OVERHEAD_BYTES: Final = 512
FRAME_BYTES: Final = 48
"""What a kept message costs beside what is in its frames, and each of these."""
ESSENTIAL_SHARE: Final = 8
"""One part in so many of the bytes may be replies and changes of state that outlive the output around them."""


@dataclass(frozen=True, slots=True)
class Outgoing:
    """A message for a client. One object however many clients get it; `sequence` rises within a session."""

    sequence: int
    channel: str
    message: Message


@dataclass(frozen=True, slots=True)
class _Kept:
    outgoing: Outgoing
    to: str | None
    cost: int
    essential: bool


class MessageRing:
    """Attributes are for reading: `last` is the latest sequence number, `gone` the latest of those no longer kept."""

    def __init__(self, limit_bytes: int) -> None:
        self.last = 0
        self.gone = 0
        self.size_bytes = 0
        self._limit_bytes = limit_bytes
        self._essential_bytes = 0
        self._kept: dict[int, _Kept] = {}
        self._bulk: deque[int] = deque()
        self._essential: deque[int] = deque()

    @property
    def largest_bytes(self) -> int:
        """What one message may cost and still be kept."""
        return self._limit_bytes // 2

    def add(self, channel: str, message: Message, to: str | None = None) -> Outgoing:
        """Keep a message for one client, or for all of them; the oldest go."""
        self.last += 1
        outgoing = Outgoing(self.last, channel, message)
        essential = channel != "iopub" or message.msg_type == "status"
        kept = _Kept(outgoing, to, cost(message), essential)
        self._kept[self.last] = kept
        (self._essential if essential else self._bulk).append(self.last)
        self.size_bytes += kept.cost
        self._essential_bytes += kept.cost if essential else 0
        self._shrink()
        return outgoing

    def following(self, position: int, client: str) -> tuple[Outgoing | None, int]:
        """The first message past `position` that is for this client, and how far was looked."""
        if position < self.gone:  # there are holes up to there
            for sequence in self._left_of_the_gone(position):
                if self._kept[sequence].to in (None, client):
                    return self._kept[sequence].outgoing, sequence
        for sequence in range(max(position, self.gone) + 1, self.last + 1):
            if self._kept[sequence].to in (None, client):
                return self._kept[sequence].outgoing, sequence
        return None, max(position, self.last)

    def missing(self, position: int) -> int:
        """How many messages past `position` are no longer kept."""
        return max(self.gone - position, 0) - sum(1 for _ in self._left_of_the_gone(position))

    def _left_of_the_gone(self, position: int) -> Iterator[int]:
        """Those past `position` that outlived others after them."""
        for sequence in self._kept:
            if sequence > self.gone:
                return
            if sequence > position:
                yield sequence

    def _shrink(self) -> None:
        while self.size_bytes > self._limit_bytes:
            crowded = self._essential_bytes > self._limit_bytes // ESSENTIAL_SHARE
            self._drop(self._essential if (crowded and self._essential) or not self._bulk else self._bulk)

    def _drop(self, row: deque[int]) -> None:
        kept = self._kept.pop(row.popleft())
        self.size_bytes -= kept.cost
        self._essential_bytes -= kept.cost if kept.essential else 0
        self.gone = max(self.gone, kept.outgoing.sequence)


def cost(message: Message) -> int:
    """What a kept message is counted as."""
    return message.size_bytes + OVERHEAD_BYTES + FRAME_BYTES * message.frames
