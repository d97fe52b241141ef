"""One replay in memory, while it runs and for a while after: its verdicts, its events, its notebook."""

from __future__ import annotations

import asyncio
import uuid
from collections import Counter
from typing import Any, Final

import msgspec

from kernel_gateway.errors import GatewayError
from kernel_gateway.services.replays.steps import Step
from kernel_gateway.services.replays.verdicts import AS_RECORDED
from kernel_gateway.services.results.event_log import EventLog
from sandcell.models.replays import CellReplay, Replay, ReplayError, ReplayRequest, ReplayStatus

MOST_DIFFS_BYTES: Final = 4_000_000
"""Of all the verdicts of one replay together, in characters."""
VERDICT_BYTES: Final = 500
"""What a verdict is counted as besides its texts."""

NODE_DIGITS: Final = 12
"""Of a gateway's id, which the ids of its replays end with."""


def make_id(gateway_id: str) -> str:
    """A new replay's; of several gateways it says which has it in memory."""
    made = str(uuid.uuid4())
    return made[:-NODE_DIGITS] + gateway_id[:NODE_DIGITS] if gateway_id else made


class Replaying:
    """A replay from the moment it is admitted. `owned` are the sessions that were started for it and end with it."""

    def __init__(
        self,
        principal_id: str,
        request: ReplayRequest,
        steps: list[Step],
        *,
        of: str | None,
        started_at: str,
        notebook_bytes: int,
        log_bytes: int,
        gateway_id: str = "",
    ) -> None:
        self.id = make_id(gateway_id)
        self.principal_id = principal_id
        self.request = request
        self.steps = steps
        self.cells = len(steps)
        self.of = of
        self.log = EventLog(log_bytes)
        self.task: asyncio.Task[None] | None = None
        self.session_id: str | None = None
        self.session_live = False
        self.owned: list[str] = []
        self.notebook: bytes = b""
        self.held_bytes = 0
        """Of the outputs kept for the notebook that is to come of it."""
        self.error: GatewayError | None = None
        self._status: ReplayStatus = "running"
        self._started_at = started_at
        self._ended_at: str | None = None
        self._verdicts: dict[int, CellReplay] = {}
        self._notebook_bytes = notebook_bytes
        self._diffs = 0
        self._ended = asyncio.Event()

    @property
    def keeps(self) -> bool:
        """Whether the session it runs in is to stay when it is done."""
        return self.request.keep_session or self.request.until is not None

    @property
    def running(self) -> bool:
        return not self._ended.is_set()

    @property
    def size_bytes(self) -> int:
        """About what it holds in memory: running, the notebook that was given; ended, the one that came of it."""
        told = sum(len(each.why) + len(each.diff) + VERDICT_BYTES for each in self._verdicts.values())
        return (
            (self._notebook_bytes + self.held_bytes if self.running else len(self.notebook))
            + self.log.size_bytes
            + told
        )

    def tell(self, event: str, **data: Any) -> None:
        """Tell those who follow it."""
        self.log.append(event, data)

    def give(self, verdict: CellReplay) -> None:
        """The verdict on a cell, or a better one; without its diff once there are more of them than are kept."""
        before = self._verdicts.get(verdict.number)
        self._diffs -= len(before.diff) if before is not None else 0
        if self._diffs + len(verdict.diff) > MOST_DIFFS_BYTES:
            why = f"{verdict.why} Its diff is left out: the diffs of this replay are too many.".strip()
            verdict = msgspec.structs.replace(verdict, diff="", why=why)
        self._diffs += len(verdict.diff)
        self._verdicts[verdict.number] = verdict
        self.tell("verdict", **msgspec.to_builtins(verdict))

    def verdict_on(self, step: Step) -> CellReplay | None:
        return self._verdicts.get(step.number)

    def end(self, status: ReplayStatus, ended_at: str, error: GatewayError | None = None) -> None:
        """It is over: wake those who wait, close the log, let go of the notebook that was given."""
        self._status, self._ended_at, self.error = status, ended_at, error
        self.steps = []
        self._ended.set()
        shape = self.shape()
        shown = ("status", "counts", "same", "session_id", "session_live", "error")
        self.tell("ended", **{name: msgspec.to_builtins(getattr(shape, name)) for name in shown})
        self.log.close()

    async def wait(self) -> None:
        """Until it is over; its own deadline bounds it."""
        await self._ended.wait()

    def shape(self, *, notebook: bool = False) -> Replay:
        """It as callers see it, with the notebook if that is wanted and there."""
        verdicts = [self._verdicts[number] for number in sorted(self._verdicts)]
        counts = Counter(str(each.verdict) for each in verdicts)
        return Replay(
            id=self.id,
            status=self._status,
            session_id=self.session_id,
            cells=self.cells,
            started_at=self._started_at,
            of=self.of,
            ended_at=self._ended_at,
            verdicts=verdicts,
            counts=dict(sorted(counts.items())),
            same=self._status == "done" and AS_RECORDED.issuperset(counts),
            session_live=self.session_live,
            error=None if self.error is None else ReplayError(self.error.code, self.error.message),
            notebook=msgspec.Raw(self.notebook) if notebook and self.notebook else None,
        )
