"""A session's executions as a Jupyter notebook: built from the rows, and kept beside the workspace in the store."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from functools import partial

import msgspec
import nbformat
import structlog
from sqlalchemy import Connection

from kernel_gateway.errors import GatewayError
from kernel_gateway.identity.principal import Principal
from kernel_gateway.services.clock import rfc3339, rfc3339_or_none
from kernel_gateway.services.mirrors import NOTEBOOK
from kernel_gateway.services.parts import Parts
from kernel_gateway.services.registry import Registry
from kernel_gateway.storage import executions, sessions
from kernel_gateway.storage.executions import ExecutionRow, NoteRow, StoredOutcome
from kernels import transcript
from kernels.errors import Death
from kernels.outputs import Truncated
from workspace_sync.errors import WorkspaceSyncError

log = structlog.get_logger(__name__)
PAGE = 200


class Notebooks:
    """Built whether the session lives or not. What the store did not take is saved again by `save_stale`."""

    def __init__(self, parts: Parts, registry: Registry) -> None:
        self._parts = parts
        self._registry = registry
        self._unsaved: set[str] = set()

    async def notebook(self, principal: Principal, session_id: str) -> bytes:
        """The `.ipynb`, UTF-8 JSON, nbformat 4.5, of all executions that have started or ended."""
        await self._registry.row(principal, session_id)
        return (await self._built(session_id, apart=False))[0]

    async def save(self, session_id: str, *, wait: bool = True) -> bool:
        """Write the notebook beside the workspace; when that does not work now, it is tried again later."""
        self._unsaved.add(session_id)
        if not wait:
            return False
        try:
            async with asyncio.timeout(self._parts.settings.flush_deadline_seconds):
                built, blobs = await self._built(session_id, apart=True)
                durable = self._parts.mirrors.durable(session_id)
                for blob in blobs:
                    await self._parts.mirrors.run(partial(durable.put_beside, blob.name, blob.data))
                await self._parts.mirrors.run(partial(durable.put_beside, NOTEBOOK, built))
        except (WorkspaceSyncError, GatewayError, TimeoutError) as error:
            log.warning("notebook_not_saved", session=session_id, error=str(error))
            return False
        except Exception as error:
            # One that cannot be built is no reason to hold up the session's end, the sweep or other notebooks.
            log.error("notebook_not_built", session=session_id, error=repr(error))
        self._unsaved.discard(session_id)
        return True

    async def save_stale(self) -> None:
        """Save the notebooks of sessions that ran something since the last time, and those that failed then."""
        stale = [live for live in self._registry if live.notebook_stale]
        for live in stale:
            live.notebook_stale = False
        self._unsaved |= {live.id for live in stale}
        for session_id in sorted(self._unsaved):
            if not await self.save(session_id):
                return  # the store is away: the rest waits with it

    async def _built(self, session_id: str, *, apart: bool) -> tuple[bytes, list[transcript.Blob]]:
        """In a thread: a long session's notebook takes a while to put together. `apart`: large outputs as files."""

        def read(connection: Connection) -> tuple[str, list[ExecutionRow], list[NoteRow]]:
            session = sessions.find(connection, session_id)
            rows, cursor = executions.list_of(connection, session_id, PAGE, None)
            while cursor is not None:
                more, cursor = executions.list_of(connection, session_id, PAGE, cursor)
                rows += more
            return session.environment if session else "", rows, executions.list_notes(connection, session_id)

        environment, rows, notes = await self._parts.database.run(read)
        blobs: list[transcript.Blob] = []
        if apart:
            rows = [_split(row, blobs) for row in rows]
        return await asyncio.to_thread(_written, session_id, environment, rows, notes), blobs


def _split(row: ExecutionRow, blobs: list[transcript.Blob]) -> ExecutionRow:
    """The row with its large rich outputs replaced by names of files, which are added to `blobs`."""
    if row.outcome is None:
        return row
    kept = []
    for output in row.outcome.outputs:
        placeholder, files = transcript.split_output(output)
        kept.append(placeholder)
        blobs += files
    return replace(row, outcome=msgspec.structs.replace(row.outcome, outputs=kept))


def _written(session_id: str, environment: str, rows: list[ExecutionRow], notes: list[NoteRow]) -> bytes:
    """Executions where they began and notes where they happened, in the order of time.

    Of the same moment: the start, executions, notes, and executions that asked for a blank kernel, after its note.
    """
    timed: list[tuple[float, int, transcript.Cell | transcript.Note]] = [
        (row.started or row.ended or row.queued, 3 if row.clear_context else 1, _cell(row))
        for row in rows
        if row.started or row.ended
    ]
    for note in notes:
        cell = transcript.Note(note.kind, note.body, rfc3339(note.at), note.generation)
        timed.append((note.at, 0 if note.kind == "started" else 2, cell))
    cells = _told_once([cell for _, _, cell in sorted(timed, key=lambda each: each[:2])])
    node = transcript.notebook(cells, session_id=session_id, environment=environment)
    return str(nbformat.writes(node)).encode() + b"\n"  # type: ignore[no-untyped-call]


def _told_once(cells: list[transcript.Cell | transcript.Note]) -> list[transcript.Cell | transcript.Note]:
    """A new generation's note does not repeat why the kernel died when the cell before it has said so."""
    told: list[transcript.Cell | transcript.Note] = []
    for cell in cells:
        before = told[-1] if told else None
        said = before.death.detail if isinstance(before, transcript.Cell) and before.death is not None else None
        if isinstance(cell, transcript.Note) and cell.kind == "generation" and said is not None and said in cell.text:
            told.append(replace(cell, text=f"**Kernel generation {cell.generation}** starts blank."))
        else:
            told.append(cell)
    return told


def _cell(row: ExecutionRow) -> transcript.Cell:
    outcome = row.outcome or StoredOutcome()
    cut, death = outcome.truncated, outcome.death
    return transcript.Cell(
        execution_id=row.id,
        code=row.code,
        status=row.status,
        execution_count=row.execution_count,
        outputs=outcome.outputs,
        generation=row.generation,
        started_at=rfc3339_or_none(row.started),
        ended_at=rfc3339_or_none(row.ended),
        truncated=Truncated(cut.stdout, cut.stderr, cut.outputs),
        death=None if death is None else Death(**msgspec.structs.asdict(death)),
        clear_context=row.clear_context,
        language=row.language,
        runtime=row.runtime,
    )
