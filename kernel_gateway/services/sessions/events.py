"""What happens to a live session's sandbox and kernels by themselves: noted in its row and in its notebook."""

from __future__ import annotations

from collections.abc import Callable
from typing import assert_never

import structlog
from sqlalchemy import Connection

from kernel_gateway import metrics
from kernel_gateway.errors import GatewayError
from kernel_gateway.services.background import Background
from kernel_gateway.services.records.record import Record
from kernel_gateway.services.results.jobs import FinishedJobs
from kernel_gateway.services.sessions.live_session import LiveSession
from kernel_gateway.services.sessions.session_sandbox import SandboxEvent
from kernel_gateway.services.sessions.workspace_restore import WorkspaceRestored
from kernel_gateway.storage import sessions
from kernel_gateway.storage.database import Database
from kernels.errors import Death
from kernels.sandboxed.kernel_events import KernelConnected, KernelReplaced, SandboxLost, SecondConnected, SecondDied
from workspace_sync import RestoreReport

log = structlog.get_logger(__name__)
NAMES_IN_A_NOTE = 3
NAME_LENGTH = 80


class SessionEvents:
    """Of all sessions. `handle` is called by a session's sandbox and returns at once."""

    def __init__(self, database: Database, record: Record, finished: FinishedJobs, background: Background) -> None:
        self._database = database
        self._record = record
        self._finished = finished
        self._background = background

    def handle(self, live: LiveSession, event: SandboxEvent) -> None:
        """Something has happened to a session's sandbox."""
        match event:
            case KernelConnected(hub):
                live.connect(hub)
            case KernelReplaced(generation, death):
                live.variables.note_replaced(death)
                self._store_generation(live, generation, death)
            case SecondConnected(hub, runtime):
                live.connect(hub, runtime)
            case SecondDied(title, death):
                self._note_second_death(live, title, death)
            case WorkspaceRestored(report):
                self._note_restore(live, report)
            case SandboxLost():
                pass  # the next use makes another, with a generation of its own
            case _:
                assert_never(event)

    def _store_generation(self, live: LiveSession, generation: int, death: Death | None) -> None:
        """The session has a blank kernel: remember its generation and why."""
        why = death.detail if death is not None else "the kernel was replaced"
        record = live.build_record()
        live.news.append("generation", {"generation": generation, "detail": why})
        if death is not None:
            metrics.count_death(death.cause)

        def store(connection: Connection) -> None:
            sessions.set_generation(connection, live.id, generation)
            sessions.set_record(connection, live.id, record)

        log.info("kernel_replaced", session=live.id, generation=generation, cause=death.cause if death else None)
        self._finished.finish(live.id, generation)
        self._note(live, "generation", f"**Kernel generation {generation}.** {why}", store)

    def note_variables(self, live: LiveSession, text: str) -> None:
        """A kernel has variables of the one before it, or was to have them."""
        record = live.build_record()
        self._note(live, "variables", text, lambda connection: sessions.set_record(connection, live.id, record))

    def _note_second_death(self, live: LiveSession, title: str, death: Death) -> None:
        """The kernel for another language ended between executions: the notebook says why."""
        what = f"**The kernel for {title} died ({death.cause}).** {death.detail}"
        metrics.count_death(death.cause)
        log.info("second_kernel_died", session=live.id, kernel=title, cause=death.cause)
        self._note(live, "deno", f"{what}; the next such code starts a blank one.")

    def _note_restore(self, live: LiveSession, report: RestoreReport) -> None:
        """A new sandbox has the files of an earlier one."""
        if not (report.files or report.directories or report.links or report.skipped):
            return
        left = f" {len(report.skipped):,} could not be restored{_list_skipped(report)}." if report.skipped else ""
        files = f"{report.files:,} file{'' if report.files == 1 else 's'}"
        size = f"{report.size_bytes:,} byte{'' if report.size_bytes == 1 else 's'}"
        what = f"{files}, {size}, as they were at {report.as_of}."
        self._note(live, "restored", f"**Workspace restored:** {what}{left}")

    def _note(self, live: LiveSession, kind: str, text: str, store: Callable[[Connection], None] | None = None) -> None:
        noting = self._record.note(live, kind, text, store)
        self._background.spawn(noting, f"note of session {live.id}")


async def store_record(database: Database, live: LiveSession) -> None:
    """Write down what is known of a session now, so that the process after a restart says the same."""
    try:
        await write_record(database, live)
    except GatewayError as error:
        log.error("record_not_stored", session=live.id, error=error.code)


async def write_record(database: Database, live: LiveSession) -> None:
    """The same for what nobody may be told before it is stored; raises the database's error."""
    record = live.build_record()
    await database.run(lambda connection: sessions.set_record(connection, live.id, record))


def _list_skipped(report: RestoreReport) -> str:
    """The first names that were left out, as code: anybody who may write to the bucket chooses names in it."""
    named = [
        f"`{each.path[:NAME_LENGTH].replace('`', chr(39))}` ({each.reason.replace('`', chr(39))})"
        for each in report.skipped[:NAMES_IN_A_NOTE]
    ]
    more = len(report.skipped) - len(named)
    return f": {', '.join(named)}{f' and {more:,} more' if more else ''}"
