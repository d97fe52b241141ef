"""Whether the files that a session's executions leave are in the store, and what answers say about that.

Each execution and command that ends in a session has a number, one more than the one before. A flush that begins
after that covers it and all before it; the newest number that a complete flush covered is what is durable.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from kernel_gateway import tracing
from kernel_gateway.services.clock import rfc3339_or_none
from kernel_gateway.storage.executions import ExecutionRow
from sandcell.models.sync import DurableExecution, ExecutionSync, Restoring, Sync, SyncMode
from workspace_sync import AsOf, Mirror
from workspace_sync.errors import MirrorClosed, WorkspaceSyncError

if TYPE_CHECKING:
    from opentelemetry.context import Context

MOST_TRACED = 100
"""Executions whose traces wait for a flush, the newest ones: a store that is away is not to fill the memory."""
GONE = "the sandbox was gone before its files were in the store"


class Ticket(msgspec.Struct, frozen=True):
    """A flush that was asked for; None when there was no mirror to ask."""

    mirror: Mirror
    number: int


class Flushes:
    """Those of one session, over all the sandboxes that it has one after another."""

    def __init__(
        self,
        mode: SyncMode,
        deadline_seconds: float,
        durable: DurableExecution | None = None,
        *,
        find_mirror: Callable[[], Mirror | None],
        on_durable: Callable[[], Awaitable[None]],
    ) -> None:
        """`on_durable` is awaited before an answer says that its files are durable."""
        self.mode = mode
        self.last: AsOf | None = None
        """What ended last, once its row is stored."""
        self._find_mirror = find_mirror
        self._on_durable = on_durable
        self.deadline_seconds = deadline_seconds
        """How long an answer waits."""
        self._number = 0
        self._sync = Sync(mode=mode, durable=durable)
        self._traced: deque[tuple[int, float, Context]] = deque(maxlen=MOST_TRACED)

    def take_up(self, last: tuple[str, int] | None) -> None:
        """Go on counting where the process before a restart ended."""
        if last is not None:
            self._number = last[1]
            self.last = AsOf(*last)
        if self._sync.durable is not None:
            self._number = max(self._number, self._sync.durable.number)

    def next_number(self) -> int:
        """The number of what has ended just now, taken before its row is stored."""
        self._number += 1
        return self._number

    def request(self, ended: ExecutionRow | None = None, trace: Context | None = None) -> Ticket | None:
        """Ask for a flush of what is in the workspace now: `ended` is stored, and it left the last of it.

        The flush is noted in its `trace`.
        """
        number = None if ended is None else ended.ended_number
        if ended is not None and number is not None and (self.last is None or number > self.last.number):
            self.last = AsOf(ended.id, number)
        mirror = self._find_mirror()
        if trace is not None and number is not None and mirror is not None and ended is not None:
            self._traced.append((number, ended.ended or 0.0, trace))
            mirror.on_flushed = self._note_traces
        # Between the end of one sandbox and the start of the next there is no mirror, or one that is closing: its last
        # flush may or may not have this. The answer then says that it is not known to be durable.
        try:
            return None if mirror is None else Ticket(mirror, mirror.request_flush(self.last))
        except MirrorClosed:
            return None

    def _note_traces(self, as_of: AsOf | None) -> None:
        while self._traced and as_of is not None and self._traced[0][0] <= as_of.number:
            _number, ended, trace = self._traced.popleft()
            tracing.note_flush(trace, ended)

    async def wait_durable(self, ticket: Ticket | None) -> ExecutionSync:
        """Wait until the flush is complete, or until it takes too long; the result says which, nothing is raised."""
        if ticket is None:
            return ExecutionSync("before_return", durable=False, error=GONE)
        try:
            await ticket.mirror.wait_flushed(ticket.number, self.deadline_seconds)
        except WorkspaceSyncError as error:
            return ExecutionSync("before_return", durable=False, error=str(error))
        self.note(ticket.mirror)
        # Stored before it is said: a service that is killed right after the answer says the same when it is back.
        await self._on_durable()
        return ExecutionSync("before_return", durable=True, error=ticket.mirror.state.error)

    def sync(self) -> Sync:
        """How far the mirror is; as it was last, when there is none."""
        mirror = self._find_mirror()
        if mirror is not None:
            self.note(mirror)
        return self._sync

    def end(self, mirror: Mirror, *, waits: bool) -> None:
        """Note how far a mirror came whose sandbox goes now: nothing is pending but what waits on this host."""
        self.note(mirror)
        self._sync = replace(self._sync, pending=waits, retry_at=None)

    def note(self, mirror: Mirror) -> None:
        """Remember how far a mirror is; called last before it is closed."""
        state, durable = mirror.state, self._sync.durable
        if state.told and state.durable is not None:  # what is read in the store may be of an earlier session
            durable = DurableExecution(state.durable.execution_id, state.durable.number)
        left = state.restoring
        self._sync = Sync(
            last_flush_at=rfc3339_or_none(state.last_flush_at),
            pending=state.pending,
            error=state.error,
            mode=self.mode,
            durable=durable,
            pending_files=state.pending_files,
            pending_bytes=state.pending_bytes,
            retry_at=rfc3339_or_none(state.retry_at),
            restoring=None if left is None else Restoring(left.files_left, left.bytes_left, left.error),
        )


def sync_status(row: ExecutionRow, session: Sync, answered: ExecutionSync | None = None) -> ExecutionSync:
    """What an execution says of its files, given how far its session's mirror is and what its answer said."""
    if row.ended is None or row.ended_number is None:
        return ExecutionSync(row.sync)
    reached = session.durable.number if session.durable is not None else 0
    if row.ended_number <= reached:
        return ExecutionSync(row.sync, durable=True, error=answered.error if answered and answered.durable else None)
    if answered is not None and row.sync == "before_return":
        return answered
    return ExecutionSync(row.sync, durable=False, error=session.error)
