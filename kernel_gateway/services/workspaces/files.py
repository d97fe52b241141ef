"""The files of a live session, read and written inside its sandbox as its user."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import aclosing

import msgspec

from kernel_gateway.errors import (
    Conflict,
    FileChanged,
    GatewayError,
    InvalidRequest,
    PayloadTooLarge,
    translate,
    translated,
)
from kernel_gateway.identity.principal import Principal
from kernel_gateway.services.admission.disk_room import DiskRoom
from kernel_gateway.services.admission.readiness import Readiness
from kernel_gateway.services.background import Background
from kernel_gateway.services.clock import rfc3339
from kernel_gateway.services.sessions.live_session import LiveSession
from kernel_gateway.services.sessions.registry import Registry
from kernel_gateway.services.workspaces.paging import page_of_files
from kernel_gateway.settings import Settings
from kernels.errors import GuestRefused
from kernels.guest_client.client import FileStat, GuestClient
from kernels.guest_client.file_stream import Content, size_of
from sandcell.models.model import Page
from sandcell.models.workspaces import MOST_NAMED, FileEntry, Removed

NO_FILE = {
    "is_a_directory": "this is no file but a directory",
    "is_a_link": "this is no file but a link",
    "not_a_file": "this is no file but other",
}
PRIVATE = ("__pycache__", "node_modules")
Refused = tuple[int, GatewayError]
"""The place of a file among many, and why it was not written or removed."""


class LiveFile(msgspec.Struct, frozen=True):
    """A file as it was when it was opened; `etag` changes with its content."""

    entry: FileEntry
    size: int
    etag: str


class LiveReading(msgspec.Struct, frozen=True):
    """A file, and its bytes `start` up to `end`, which come piece by piece; the caller closes them."""

    file: LiveFile
    start: int
    end: int
    chunks: AsyncGenerator[bytes]


Bounds = Callable[[LiveFile], tuple[int, int]]
"""Which of its bytes are asked for; called with the file."""


class Files:
    """Paths are relative to /workspace. Reading is no activity that keeps a session from idling; writing is."""

    def __init__(
        self,
        *,
        settings: Settings,
        readiness: Readiness,
        disk_room: DiskRoom,
        background: Background,
        registry: Registry,
    ) -> None:
        self._settings = settings
        self._readiness = readiness
        self._disk_room = disk_room
        self._background = background
        self._registry = registry

    async def list(
        self,
        principal: Principal,
        session_id: str,
        path: str = "",
        *,
        recursive: bool = False,
        limit: int | None = None,
        cursor: str | None = None,
        private: bool = True,
    ) -> Page[FileEntry]:
        """What is in a directory, by path; without `private`, not what is in directories that programs keep."""
        live = await self._registry.require(principal, session_id)
        most = self._settings.files_listed
        with translated():
            kernel = await live.sandbox.ready()
            found = await kernel.guest.list_files(path, recursive=recursive, limit=most + 1, private=private)
        return page_of_files([file_entry(each) for each in found], most, limit, cursor)

    async def stat(self, principal: Principal, session_id: str, path: str) -> FileEntry:
        """What is at a path; a link is described, not followed."""
        live = await self._registry.require(principal, session_id)
        with translated():
            kernel = await live.sandbox.ready()
            return file_entry(await kernel.guest.stat_file(path))

    async def read(
        self,
        principal: Principal,
        session_id: str,
        path: str,
        bounds: Bounds | None = None,
    ) -> LiveReading:
        """A file and its bytes, all or those within `bounds`, which are of one version; raises what `bounds` raises.

        When the file changes they end with FileChanged before the last.
        """
        live = await self._registry.require(principal, session_id)
        with translated():
            kernel = await live.sandbox.ready()
            try:
                return await _open(kernel.guest, path, bounds)
            except GuestRefused as error:
                if error.code in NO_FILE:
                    raise InvalidRequest(NO_FILE[error.code], path=path, reason="not_a_file") from None
                raise

    async def write(self, principal: Principal, session_id: str, path: str, chunks: AsyncIterator[bytes]) -> FileEntry:
        """Replace or make a file, whole or not at all; parents are made."""
        return await self.write_stream(principal, session_id, path, limit_bytes(chunks, self._settings.payload_bytes))

    async def write_stream(
        self, principal: Principal, session_id: str, path: str, chunks: AsyncIterator[bytes]
    ) -> FileEntry:
        """As `write`, of bytes whose number something else bounds."""
        self._readiness.require_accepting()
        live = await self._registry.require(principal, session_id)
        self._disk_room.require()
        with translated(), live.in_use():
            kernel = await live.sandbox.ready()
            written = await kernel.guest.write_file(path, chunks)
            await note_changes(live, [path])
        return file_entry(written)

    async def read_whole(self, principal: Principal, session_id: str, path: str, most_bytes: int) -> bytes:
        """A file's bytes; raises PayloadTooLarge, before anything is read, when there are more than `most_bytes`."""
        live = await self._registry.require(principal, session_id)
        with translated():
            kernel = await live.sandbox.ready()
            return b"".join([chunk async for chunk in kernel.guest.read_file(path, max_bytes=most_bytes)])

    async def write_all(
        self, principal: Principal, session_id: str, files: Sequence[tuple[str, Content]]
    ) -> tuple[Refused, ...]:
        """Write many files as `write` does each; those that were not written, by their place in `files`, and why.

        Raises PayloadTooLarge before anything is written. Files that the sandbox does not take keep no other out. A
        caller who goes away stops nothing.
        """
        self._readiness.require_accepting()
        most = self._settings.payload_bytes
        for path, content in files:
            if size_of(content) > most:
                raise PayloadTooLarge(f"{path} has more than {most:,} bytes", path=path)
        live = await self._registry.require(principal, session_id)
        self._disk_room.require()
        work = self._write_all(live, files)
        return await self._background.carry_out(work, f"files of {live.id}")

    async def _write_all(self, live: LiveSession, files: Sequence[tuple[str, Content]]) -> tuple[Refused, ...]:
        with translated(), live.in_use():
            kernel = await live.sandbox.ready()
            refused = await kernel.guest.write_files(files)
            await note_changes(live, [path for path, _ in files])
        return tuple((number, translate(error)) for number, error in refused)

    async def remove_all(self, principal: Principal, session_id: str, paths: Sequence[str]) -> tuple[Refused, ...]:
        """Remove files and empty directories in this order; those that were not, by their place, and why.

        One that the sandbox does not remove keeps no other from it. A caller who goes away stops nothing.
        """
        live = await self._registry.require(principal, session_id)
        return await self._background.carry_out(self._remove_all(live, paths), f"removal in {live.id}")

    async def _remove_all(self, live: LiveSession, paths: Sequence[str]) -> tuple[Refused, ...]:
        with translated(), live.in_use():
            kernel = await live.sandbox.ready()
            refused = await kernel.guest.remove_files(paths)
            await note_changes(live, paths)
        return tuple((number, translate(error)) for number, error in refused)

    async def would_remove(
        self, principal: Principal, session_id: str, path: str, *, recursive: bool = False
    ) -> Removed:
        """What `remove` would; raises what it would raise, and InvalidRequest when there is too much to look at."""
        live = await self._registry.require(principal, session_id)
        most = self._settings.files_listed
        with translated():
            guest = (await live.sandbox.ready()).guest
            found = [await guest.stat_file(path)]
            if found[0].kind == "directory":
                found += await guest.list_files(path, recursive=True, limit=most + 1)
        if len(found) > most:
            raise InvalidRequest(f"there are more than {most:,} entries: look further down", reason="too_many")
        if len(found) > 1 and not recursive:
            raise Conflict("the directory is not empty; remove it with recursive", reason="not_empty")
        sizes = [each.size for each in found if each.kind == "file"]
        paths = sorted(each.path for each in found)
        named = paths[:MOST_NAMED]
        return Removed(
            dry_run=True,
            file_count=len(sizes),
            size_bytes=sum(sizes),
            paths=named,
            omitted=len(paths) - len(named),
        )

    async def remove(self, principal: Principal, session_id: str, path: str, *, recursive: bool = False) -> None:
        """Remove a file, or a directory with all that is in it when `recursive`."""
        live = await self._registry.require(principal, session_id)
        with translated(), live.in_use():
            kernel = await live.sandbox.ready()
            await kernel.guest.remove_file(path, recursive=recursive)
            await note_changes(live, [path])


async def _open(guest: GuestClient, path: str, bounds: Bounds | None) -> LiveReading:
    part = None if bounds is None else await _open_part(guest, path, bounds)
    if part is not None:
        return part
    found, chunks = await guest.open_file(path)
    return LiveReading(live_file(found), 0, found.size, _translate_errors(chunks))


async def _open_part(guest: GuestClient, path: str, bounds: Bounds) -> LiveReading | None:
    """The part is of the version that its bounds were chosen by: when another has come since, they are chosen again.

    None for what is no file, which is refused when it is opened, and for a guest that tells no versions.
    """
    for last in (False, True):
        found = await guest.stat_file(path)
        if found.kind != "file" or not found.version:
            return None
        file = live_file(found)
        start, end = bounds(file)
        try:
            return LiveReading(file, start, end, _translate_errors(await guest.open_part(found, start, end)))
        except GuestRefused as error:
            if last or error.code != FileChanged.code:
                raise
    return None


def live_file(found: FileStat) -> LiveFile:
    """A file with its ETag: a weak one while the next change might not show in it, none when it is not known."""
    tag = f'{"" if found.settled else "W/"}"{found.version}"' if found.version else ""
    return LiveFile(file_entry(found), found.size, tag)


def file_entry(found: FileStat) -> FileEntry:
    """A file as callers see it."""
    return FileEntry(found.path, found.kind, found.size, rfc3339(found.modified))  # type: ignore[arg-type]


def is_private(path: str) -> bool:
    """Whether programs keep it for themselves: it is hidden, or in a directory as of modules and caches."""
    return any(part.startswith(".") or part in PRIVATE for part in path.split("/"))


async def limit_bytes(chunks: AsyncIterator[bytes], most_bytes: int) -> AsyncIterator[bytes]:
    """The same bytes; raises PayloadTooLarge as soon as there are too many."""
    size = 0
    async for chunk in chunks:
        size += len(chunk)
        if size > most_bytes:
            raise PayloadTooLarge(f"the file has more than {most_bytes:,} bytes")
        yield chunk


async def _translate_errors(chunks: AsyncGenerator[bytes]) -> AsyncGenerator[bytes]:
    async with aclosing(chunks):
        with translated():
            async for chunk in chunks:
                yield chunk


async def note_changes(live: LiveSession, paths: Sequence[str]) -> None:
    """Flush it soon; and count it as changed by no execution."""
    if live.sandbox.watched is not None:
        raw = [path.encode("utf-8", "surrogateescape") for path in paths]
        await live.sandbox.bring_files()
        await asyncio.to_thread(live.sandbox.watched.accept, raw)
    live.sandbox.flushes.request()
