"""What a session's kernels print after the execution it belongs to has ended: collected, streamed, recorded.

A thread prints, a task of an event loop goes on, code said too early that it had ended. What is heard is gathered for a
moment and becomes a row of its own and a cell of the notebook, and is shown with the execution that it is of.
"""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import chain
from typing import Final

import msgspec
import structlog
from sqlalchemy import Connection

from kernel_gateway.errors import DatabaseUnavailable, NoSpace
from kernel_gateway.services.background import Background
from kernel_gateway.services.clock import Clock
from kernel_gateway.services.records.record import Record
from kernel_gateway.services.results import displays
from kernel_gateway.services.results.jobs import FinishedJobs, Job
from kernel_gateway.services.results.outcomes import make_stored_outcome, with_late
from kernel_gateway.services.results.redaction import Redaction
from kernel_gateway.services.sessions.live_session import LiveSession
from kernel_gateway.settings import Settings
from kernel_gateway.storage import executions
from kernel_gateway.storage.database import Database
from kernel_gateway.storage.executions import ExecutionRow, Said, StoredOutcome, StoredUpdate
from kernels.execution.hub import Hub
from kernels.execution.outputs import Event, OutputCaps, OutputCollector
from kernels.execution.runs import OUTPUTS
from kernels.execution.widgets import COMMS
from kernels.wire.message import Message

log = structlog.get_logger(__name__)
QUIET_SECONDS: Final = 0.5
"""How long late output is gathered before it is written down."""
LONGEST_SECONDS: Final = 30.0
"""The same of a kernel that goes on and on: each time it waits twice as long, so that hours of it are few cells. One
that was silent for as long is heard as at first."""
CLOSE_SECONDS: Final = 5.0
MOST_SOURCES: Final = 32
"""Executions whose late output is gathered at once; that of further ones is of no known execution."""
MOST_LARGE: Final = 8
"""How many of them have the room of `LARGE`; each further one has that of `SMALL`."""
SILENT_SECONDS: Final = 2.0
"""After that without a word what was heard of one is written down early, where there are that many: else the threads of
short cells, one after another, would be too many within the longest time that is gathered."""
MOST_UNSTORED: Final = 32
"""Late outputs that wait for the database; then the oldest are lost."""
TEXT_BYTES: Final = 256 * 1024
RICH_BYTES: Final = 4 * 1024 * 1024
LARGE: Final = OutputCaps(text_bytes=TEXT_BYTES, rich_bytes=RICH_BYTES)
SMALL: Final = OutputCaps(text_bytes=TEXT_BYTES // 4, rich_bytes=RICH_BYTES // 16)


class _Heard:
    """Late output of one execution, or of none that is known, since it was last written down."""

    def __init__(self, of: str, now: float, generation: int, hub: Hub, caps: OutputCaps) -> None:
        self.of = of
        self.hub = hub
        self.generation = generation
        self.first = self.last = now
        self.collector = OutputCollector(caps, hub.widgets)

    def outcome(self) -> StoredOutcome:
        return make_stored_outcome(self.collector.snapshot())


class _Unstored(msgspec.Struct, frozen=True):
    """Late output that is to be stored: what was heard, and which of its outputs have display ids.

    All that its execution said up to `number` is in it, or stored.
    """

    heard: _Heard
    row: ExecutionRow
    displays: Mapping[str, Sequence[int]]
    number: int


class LateOutputs:
    """Those of one live session. Everything but `flush` and `close` returns at once."""

    def __init__(
        self,
        *,
        settings: Settings,
        clock: Clock,
        database: Database,
        record: Record,
        redaction: Redaction,
        finished: FinishedJobs,
        background: Background,
        live: LiveSession,
    ) -> None:
        self._settings = settings
        self._clock = clock
        self._database = database
        self._record = record
        self._redaction = redaction
        self._finished = finished
        self._background = background
        self._live = live
        self._heard: dict[str, _Heard] = {}
        self._unstored: list[_Unstored] = []
        self._storing = asyncio.Lock()
        self._timer: asyncio.TimerHandle | None = None
        self._pause = QUIET_SECONDS
        self._last_heard = 0.0
        self._closed = False

    def connect(self, hub: Hub) -> None:
        """Listen to another kernel, as long as it lives."""
        hub.subscribe(partial(self._deliver, hub), skipped=partial(self._skip, hub))

    def pending(self, execution_id: str) -> list[StoredOutcome]:
        """What was heard of an execution and is not written down yet, in order."""
        waiting = [each.row.outcome for each in self._unstored if each.heard.of == execution_id]
        if (heard := self._heard.get(execution_id)) is not None:
            waiting.append(heard.outcome())
        return [each for each in waiting if each is not None]

    def updates(self) -> list[StoredUpdate]:
        """What was heard of displays that executions have shown, and is not written down yet."""
        heard = [
            update
            for each in self._heard.values()
            for update in self._live.displays.updates(each.generation, each.collector.snapshot().updates)
        ]
        waiting = [each.row.outcome.updates for each in self._unstored if each.row.outcome is not None]
        return [*chain.from_iterable(waiting), *heard]

    def announce(self, execution_id: str) -> None:
        """Say to who follows the session that more has come of an execution, before that is written down."""
        self._announce(execution_id, self.updates())

    def _announce(self, of: str, updates: Sequence[StoredUpdate]) -> None:
        for each in dict.fromkeys([*([of] if of else []), *displays.targets(updates)]):
            self._live.news.append("late", {"execution_id": each})

    async def flush(self) -> None:
        """Write down what was heard; what the database does not take is tried again."""
        async with self._storing:
            for heard in [each for each in self._heard.values() if self._live.find_job(each.of) is None]:
                del self._heard[heard.of]
                self._add(heard)
            for lost in self._unstored[:-MOST_UNSTORED]:
                lost.heard.hub.release(lost.heard)
            del self._unstored[:-MOST_UNSTORED]
            while self._unstored:
                try:
                    await self._store(self._unstored[0])
                except (NoSpace, DatabaseUnavailable) as error:
                    log.error("late_output_not_stored", session=self._live.id, error=error.code)
                    break
                del self._unstored[0]
        if self._heard or self._unstored:
            self._schedule()

    def _add(self, heard: _Heard) -> None:
        """What was heard is to be stored: outputs, updates of displays that are known, or both."""
        shown = heard.collector.snapshot()
        updates = self._live.displays.updates(heard.generation, shown.updates)
        if shown.outputs or updates:
            outcome = msgspec.structs.replace(make_stored_outcome(shown), updates=updates)
            row = make_late_row(self._live.id, heard.generation, outcome, queued=heard.first, ended=heard.last)
            self._unstored.append(_Unstored(heard, row, shown.displays, heard.hub.position))
        else:
            heard.hub.release(heard)

    async def close(self) -> None:
        """Write down the rest; the session has ended, or another process goes on with it."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(CLOSE_SECONDS):
                await self.flush()
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()

    def _deliver(self, hub: Hub, channel: str, message: Message) -> None:
        """A message of a kernel's; called by the hub for each."""
        if channel != "iopub" or not (message.msg_type in OUTPUTS or _changes_widget(hub, message)):
            return
        of = hub.runs.late_of(message, hub.position)
        if of is None:
            return
        heard = self._of(of, hub)
        if message.outgrown:
            events = heard.collector.skip(message.size_bytes, "it holds more values than are decoded")
        else:
            events = heard.collector.feed(message.msg_type, message.content)
        self._tell(of, events)

    def _skip(self, hub: Hub, parent_id: str, size_bytes: int) -> None:
        of = hub.runs.late_of_skipped(parent_id, hub.position)
        if of is not None:
            self._tell(of, self._of(of, hub).collector.skip(size_bytes))

    def _of(self, of: str, hub: Hub) -> _Heard:
        now = self._clock.now()
        heard = self._heard.get(of)
        if heard is None:
            if len(self._heard) >= MOST_LARGE:
                self._make_room(now)
            of = of if len(self._heard) < MOST_SOURCES else ""
            caps = LARGE if len(self._heard) < MOST_LARGE else SMALL
            heard = self._heard.setdefault(of, _Heard(of, now, self._live.sandbox.generation, hub, caps))
            hub.hold(heard)
        if now - self._last_heard > LONGEST_SECONDS:
            self._pause = QUIET_SECONDS
        heard.last = self._last_heard = now
        self._schedule()
        return heard

    def _make_room(self, now: float) -> None:
        """Write down now what was heard of executions that are silent and have ended."""
        silent = [each for each in self._heard.values() if now - each.last >= SILENT_SECONDS]
        over = [each for each in silent if self._live.find_job(each.of) is None]
        for heard in over:
            del self._heard[heard.of]
            self._add(heard)
        if over:  # what waits besides has a time of its own: this may be asked for each message
            self._background.spawn(self.flush(), f"late output of {self._live.id}")

    def _tell(self, of: str, events: list[Event]) -> None:
        job = self._job(of)
        for event in events if job is not None else []:
            if job is not None and event.kind != "beyond":
                job.log.append_late({"event": event.kind, "data": event.data})

    def _job(self, of: str) -> Job | None:
        return self._live.find_job(of) or self._finished.find(self._live.id, of)

    def _schedule(self) -> None:
        if self._timer is None and not self._closed:
            self._timer = asyncio.get_running_loop().call_later(self._pause, self._due)

    def _due(self) -> None:
        self._timer = None
        self._pause = min(2 * self._pause, LONGEST_SECONDS)
        self._background.spawn(self.flush(), f"late output of {self._live.id}")

    async def _store(self, unstored: _Unstored) -> None:
        heard, row, hub = unstored.heard, unstored.row, unstored.heard.hub
        of = heard.of
        if hub.stream:
            said = Said("", "", unstored.number, of)
            row = msgspec.structs.replace(
                row, stream=hub.stream, heard=hub.durable_with(unstored.number, heard), said=said
            )
        most = self._settings.stored_text_bytes
        row = await asyncio.to_thread(self._redaction.row, row) if self._redaction.wanted else row

        def store(connection: Connection) -> None:
            stored = displays.store(connection, row)
            origin = executions.find(connection, row.session_id, of) if of else None
            executions.add_ended(connection, stored if origin is None else _of_cell(stored, origin))
            if origin is not None and origin.outcome is not None:
                executions.set_outcome(connection, of, with_late(origin.outcome, row.outcome, most))

        await self._database.run(store)
        hub.release(heard)
        if row.heard is not None:
            hub.settle(row.heard)
        self._live.displays.add(row, unstored.displays)
        self._finished.update(row.session_id, row.outcome.updates if row.outcome else (), told=of)
        job = self._finished.find(row.session_id, of)
        if job is not None and job.row.outcome is not None:
            job.row = msgspec.structs.replace(job.row, outcome=with_late(job.row.outcome, row.outcome, most))
            self._finished.keep(job)
        self._announce(of, row.outcome.updates if row.outcome else ())
        self._live.notebook_stale = True
        self._record.request(row.session_id)


def make_late_row(
    session_id: str, generation: int, outcome: StoredOutcome, *, queued: float, ended: float
) -> ExecutionRow:
    """The row of what came after the end of an execution that is not known: `with_origin` makes it one's."""
    return ExecutionRow(
        id=str(uuid.uuid4()),
        session_id=session_id,
        status="ok",
        language="python",
        code="# output of no known cell",
        generation=generation,
        timeout_seconds=0.0,
        expect_generation=None,
        idempotency_key=None,
        request_digest=None,
        queued=queued,
        kind="late",
        outcome=outcome,
        started=queued,
        ended=ended,
    )


def _of_cell(row: ExecutionRow, origin: ExecutionRow) -> ExecutionRow:
    number = origin.id if origin.execution_count is None else origin.execution_count
    return with_origin(row, origin, f"# late output of cell {number}")


def with_origin(row: ExecutionRow, origin: ExecutionRow, code: str) -> ExecutionRow:
    """A late row as one of this execution, with what its cell has as code."""
    return msgspec.structs.replace(
        row,
        code=code,
        language=origin.language,
        runtime=origin.runtime,
        generation=origin.generation,
        author=origin.author,
        face=origin.face,
        provenance={"late_of": origin.id},
    )


def _changes_widget(hub: Hub, message: Message) -> bool:
    """Whether code that was executed, or a widget that was moved, has changed something displayed.

    What an attached client moves is on no record.
    """
    return (
        message.msg_type in COMMS
        and (message.parent_type == "execute_request" or hub.runs.is_known(message))
        and hub.widgets.change_of(message.content) is not None
    )
