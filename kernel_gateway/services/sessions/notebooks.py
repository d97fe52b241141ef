"""A session's notebook: its written cells between a head and an ending, and kept next to the workspace in the store.

It is saved when it has grown by half since the last time, or after a time that rises with its size, and at the
session's end: all that is ever written of it is a few times what it is, however long the session. The reasons:
docs/explanation/notebook-chain.md.
"""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
from collections.abc import AsyncIterator, Callable
from functools import partial
from typing import BinaryIO, TypeAlias, TypeVar, cast
from weakref import WeakValueDictionary

import msgspec
import structlog
from sqlalchemy import Connection

from kernel_gateway.errors import GatewayError, PayloadTooLarge
from kernel_gateway.identity.principal import Principal
from kernel_gateway.services.clock import Clock, rfc3339
from kernel_gateway.services.environments.kernelspecs import Kernelspecs
from kernel_gateway.services.mirroring.mirrors import MANIFEST, NOTEBOOK, Mirrors
from kernel_gateway.services.records.record import Record
from kernel_gateway.services.records.revised_cells import count_shown_bytes, read_page, read_shown
from kernel_gateway.services.results.kept_outputs import KeptOutputs
from kernel_gateway.services.sessions.registry import Registry
from kernel_gateway.settings import Settings
from kernel_gateway.storage import cells, executions, sessions
from kernel_gateway.storage.cells import Head
from kernel_gateway.storage.database import Database
from kernels.languages import BUILT_IN
from kernels.notebook import chain, transcript
from kernels.notebook.transcript import NotebookKernel
from sandcell.models.model import Page
from sandcell.models.sessions import Note
from workspace_sync.errors import WorkspaceSyncError

log = structlog.get_logger(__name__)
T = TypeVar("T")
GROWTH = 0.5
"""The share of itself by which a notebook has to grow to be saved at the next sweep."""
SAVED_BYTES_PER_SECOND = 5_000
"""What a notebook that grows less is saved with, on average."""
IN_MEMORY_BYTES = 8_000_000
"""Of a notebook that is being saved; a larger one is put together in a file."""


READ_AT_ONCE_BYTES = 256 * 1024
"""Of a notebook that is read by one query."""


class Reading(msgspec.Struct, frozen=True):
    """A notebook's bytes, which come piece by piece, and how many there are; `manifest` where it was asked for."""

    size: int
    chunks: AsyncIterator[bytes]
    manifest: bytes


_Page: TypeAlias = tuple[list[bytes], list[int], Head]
"""Cells as they were written, which of them are revised, and where they end."""


class _Found(msgspec.Struct, frozen=True):
    """What the database says of a notebook."""

    environment: str
    name: str
    shown_bytes: int
    only: tuple[str, str] | None
    """Language and runtime of all that ran, where they are the same."""
    widgets: dict[str, msgspec.Raw]
    links: list[tuple[str, str]]
    page: _Page | None


class _Saved(msgspec.Struct, frozen=True):
    """How large a notebook was when it was last saved, and when."""

    total_bytes: int
    at: float


class Notebooks:
    """Read whether the session lives or not. What the store did not take is saved again by `save_stale`."""

    def __init__(
        self,
        *,
        settings: Settings,
        clock: Clock,
        database: Database,
        mirrors: Mirrors,
        record: Record,
        kept_outputs: KeptOutputs,
        registry: Registry,
        kernelspecs: Kernelspecs,
    ) -> None:
        self._settings = settings
        self._clock = clock
        self._database = database
        self._mirrors = mirrors
        self._record = record
        self._kept_outputs = kept_outputs
        self._registry = registry
        self._kernelspecs = kernelspecs
        self._unsaved: dict[str, None] = {}
        """In the order in which they are tried: one that failed comes after the others."""
        self._saving: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        """An older notebook is never written over a newer one, nor next to the manifest of another."""
        self._saved: dict[str, _Saved] = {}
        self._marks = self._settings.state_path / "unsaved"
        """An empty file for each notebook that is to be saved, named after its session."""

    async def notebook(self, principal: Principal, session_id: str) -> bytes:
        """The same as one value, for those who look into it; raises PayloadTooLarge beyond `notebook_bytes`."""
        reading, most = await self.read(principal, session_id), self._settings.notebook_bytes
        if reading.size > most:
            raise PayloadTooLarge(
                f"the notebook has {reading.size:,} bytes, and those up to {most:,} are looked into: get it as ipynb"
            )
        return b"".join([chunk async for chunk in reading.chunks])

    async def read(self, principal: Principal, session_id: str) -> Reading:
        """The `.ipynb`, UTF-8 JSON, nbformat 4.5, of all that has ended: the same record has the same bytes."""
        await self._registry.row(principal, session_id)
        return await self._open(session_id)

    async def notes(
        self, principal: Principal, session_id: str, limit: int, cursor: str | None, *, newest_first: bool
    ) -> Page[Note]:
        """What happened to the session besides executions, oldest first unless asked otherwise."""
        await self._registry.row(principal, session_id)
        rows, following = await self._database.run(
            lambda c: executions.list_notes(c, session_id, limit, cursor, newest_first=newest_first)
        )
        return Page([Note(each.kind, rfc3339(each.at), each.generation, each.body) for each in rows], following)

    async def manifest(self, principal: Principal, session_id: str) -> bytes:
        """What `kernels.notebook.chain.verify` holds against the notebook: JSON, ids and links of all cells."""
        await self._registry.row(principal, session_id)
        head, ((environment, _), links) = await self._settle_and_read(
            session_id, lambda c, _head: (_find_environment_and_name(c, session_id), cells.links(c, session_id))
        )
        return _encode_manifest(session_id, environment, links[: head.cells])

    def take_up(self) -> None:
        """Know again which notebooks an earlier process had still to save; called once at start."""
        self._marks.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._unsaved |= dict.fromkeys(sorted(mark.name for mark in self._marks.iterdir()))

    def expect(self, session_id: str) -> None:
        """The notebook is to be saved, whatever becomes of this process; called before a session is over."""
        self._unsaved[session_id] = None
        with contextlib.suppress(OSError):  # without the mark it is saved all the same, unless this process dies
            (self._marks / session_id).touch()

    async def save(self, session_id: str, *, wait: bool = True) -> bool:
        """Write the notebook next to the workspace; when that does not work now, it is tried again later."""
        self.expect(session_id)
        if not wait:
            return False
        async with self._saving.setdefault(session_id, asyncio.Lock()):
            return await self._save(session_id)

    async def _save(self, session_id: str) -> bool:
        self._unsaved.pop(session_id, None)  # who expects it to be saved from here on is not meant by this one
        try:
            async with asyncio.timeout(self._settings.flush_deadline_seconds):
                await self._kept_outputs.deliver(session_id)
                size = await self._deliver(session_id)
        except (WorkspaceSyncError, GatewayError, OSError) as error:  # the store, the database, the disk, the time
            log.warning("notebook_not_saved", session=session_id, error=str(error))
            self._unsaved[session_id] = None
            return False
        except Exception as error:
            # One that cannot be built is no reason to hold up the session's end, the sweep or other notebooks.
            log.error("notebook_not_built", session=session_id, error=repr(error))
        else:
            if session_id in self._registry:
                self._saved[session_id] = _Saved(size, self._clock.now())
        if session_id not in self._unsaved:
            with contextlib.suppress(OSError):
                (self._marks / session_id).unlink()
        return True

    async def _deliver(self, session_id: str) -> int:
        """Put notebook and manifest into the store, by way of a file: a notebook may be larger than memory.

        How large the notebook is.
        """
        reading, durable = await self._open(session_id, linked=True), self._mirrors.durable(session_id)
        with tempfile.SpooledTemporaryFile(IN_MEMORY_BYTES, dir=str(self._settings.state_path)) as file:
            put = partial(durable.put_stream_beside, NOTEBOOK, cast("BinaryIO", file), reading.size)
            put_manifest = partial(durable.put_beside, MANIFEST, reading.manifest)

            async for chunk in reading.chunks:
                if reading.size <= IN_MEMORY_BYTES:  # a thread is for the disk
                    file.write(chunk)
                else:
                    await asyncio.to_thread(file.write, chunk)
            file.seek(0)
            # At the same time: a store on a disk waits twice for it otherwise. Both are put again when one fails.
            done = await asyncio.gather(*map(self._mirrors.run, (put, put_manifest)), return_exceptions=True)
        for error in done:
            if error is not None:
                raise error
        return reading.size

    async def close(self, session_id: str, *, wait: bool) -> None:
        """The session has ended: its notebook is whole, and saved if the store is there."""
        await self.save(session_id, wait=wait)
        self._saved.pop(session_id, None)
        self._record.forget(session_id)
        self._kept_outputs.forget(session_id)

    async def save_stale(self) -> None:
        """Save the notebooks of sessions that ran something since the last time, and those that failed then."""
        for live in [live for live in self._registry if live.notebook_stale]:
            if await self._worth_saving(live.id):
                live.notebook_stale = False
                self._unsaved[live.id] = None
        for session_id in list(self._unsaved):
            if not await self.save(session_id):
                return  # the store is away: the rest waits with it

    async def _worth_saving(self, session_id: str) -> bool:
        """Whether the notebook has grown enough, or waited long enough for its size."""
        last = self._saved.get(session_id)
        if last is None:
            return True
        total = await self._database.run(lambda c: count_shown_bytes(c, session_id, cells.head(c, session_id)))
        return worth_saving(last.total_bytes, total, self._clock.now() - last.at)

    async def _settle_and_read(self, session_id: str, read: Callable[[Connection, Head], T]) -> tuple[Head, T]:
        """How far the record is, and what is read of it, once what has ended is in it.

        What cannot be written now is left out.
        """
        live = self._registry.get(session_id)
        try:
            if live is not None:
                await live.late.flush()
            return await self._record.settle_and_read(session_id, read)
        except (WorkspaceSyncError, GatewayError, TimeoutError) as error:
            log.warning("record_not_written", session=session_id, error=str(error))

        def read_as_it_is(connection: Connection) -> tuple[Head, T]:
            head = cells.head(connection, session_id)
            return head, read(connection, head)

        return await self._database.run(read_as_it_is)

    async def _open(self, session_id: str, *, linked: bool = False) -> Reading:
        """Of a short notebook all is read at once; with its manifest when it is to be `linked`."""

        def read(connection: Connection, head: Head) -> _Found:
            shown = count_shown_bytes(connection, session_id, head)
            return _Found(
                *_find_environment_and_name(connection, session_id),
                shown,
                cells.find_only_runtime(connection, session_id),
                cells.read_widgets(connection, session_id, head.cells),
                cells.links(connection, session_id)[: head.cells] if linked else [],
                _page(session_id, Head(), head.cells, connection) if shown <= READ_AT_ONCE_BYTES else None,
            )

        head, found = await self._settle_and_read(session_id, read)
        last = head.hash or chain.genesis(session_id, found.environment)
        ending = transcript.ending(
            session_id,
            found.environment,
            cells=head.cells,
            head=last,
            name=found.name,
            kernel=await self._find_kernel(found.environment, found.only),
            widgets=found.widgets,
        )
        between = len(transcript.BETWEEN) * max(head.cells - 1, 0)
        size = len(transcript.HEAD) + found.shown_bytes + between + len(ending)
        manifest = _encode_manifest(session_id, found.environment, found.links) if linked else b""
        return Reading(size, self._chunks(session_id, head, ending, found.page), manifest)

    async def _chunks(self, session_id: str, head: Head, ending: bytes, read: _Page | None) -> AsyncIterator[bytes]:
        """What was `read` of it already is not read again."""
        lead, place = transcript.HEAD, Head()
        while place.cells < head.cells:
            first = place.cells
            if read is None:
                read = await self._database.run(partial(_page, session_id, place, head.cells))
            (page, revised, place), read = read, None
            page = page[: head.cells - first]  # not what was written meanwhile
            start = 0
            for index in [*(each - first for each in revised if each < head.cells), len(page)]:
                if start < index:
                    yield lead + transcript.BETWEEN.join(page[start:index])
                    lead = transcript.BETWEEN
                if index < len(page):  # one by one: what became of a cell may be many times as large as it was
                    show = partial(_apply_revisions, session_id, first + index, page[index], head.cells)
                    yield lead + await self._database.run(show)
                    lead = transcript.BETWEEN
                start = index + 1
        yield ending if head.cells else lead + ending

    async def _find_kernel(self, environment: str, only: tuple[str, str] | None) -> NotebookKernel | None:
        """The kernel of the image that ran everything in the session; None, which means Python's, where none did.

        `only` are the language and the runtime of all that ran.
        """
        if only is None or only[1] in BUILT_IN:
            return None
        language, runtime = only
        for each in await self._kernelspecs.of_session(environment, ""):
            if each.name == runtime:
                return NotebookKernel(runtime, each.title, each.language_name or each.language)
        return NotebookKernel(runtime, runtime, language)  # the image has gone, or has it no more


def worth_saving(saved_bytes: int, total_bytes: int, waited_seconds: float) -> bool:
    """Whether a notebook has grown enough since it was saved, or waited long enough for its size. Pure."""
    grown = total_bytes >= saved_bytes * (1 + GROWTH)
    return grown or waited_seconds * SAVED_BYTES_PER_SECOND >= total_bytes


def _find_environment_and_name(connection: Connection, session_id: str) -> tuple[str, str]:
    row = sessions.find(connection, session_id)
    return (row.environment, row.name) if row else ("", "")


def _encode_manifest(session_id: str, environment: str, links: list[tuple[str, str]]) -> bytes:
    return msgspec.json.encode(chain.manifest(session_id, environment, [chain.Link(*each) for each in links])) + b"\n"


def _page(session_id: str, place: Head, count: int, connection: Connection) -> _Page:
    return read_page(connection, session_id, place, count)


def _apply_revisions(session_id: str, position: int, cell: bytes, count: int, connection: Connection) -> bytes:
    return read_shown(connection, session_id, position, cell, count)
