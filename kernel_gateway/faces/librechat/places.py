"""Where code runs and files are: a live session over a workspace, or the workspace alone.

A run is at home in the storage session of the files that it was given last, if code made that session. What was only
uploaded belongs to no run: its files are copied to where the code runs. So a conversation keeps one sandbox, an agent's
files are in many, and no conversation writes into another's.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary, WeakValueDictionary

import msgspec

from kernel_gateway.errors import InvalidRequest, NotFound, SessionBusy, WorkspaceInUse
from kernel_gateway.faces.librechat.identifiers import clean_path, identify_file, name_session, parse_id
from kernel_gateway.faces.librechat.requests import ExecuteCode, InputFile
from kernel_gateway.identity.principal import Principal
from kernel_gateway.services.sessions.live_session import LiveSession
from sandcell.models.sessions import StartSession
from sandcell.models.workspaces import FileEntry

if TYPE_CHECKING:
    from kernel_gateway.services.composition import Services

Version = tuple[int, str]
"""A file's size, and when it was changed."""


@dataclass(frozen=True)
class Place:
    """A live session over a workspace; `is_new` when it was started for this run."""

    workspace_id: str
    session_id: str
    is_new: bool = False


@dataclass
class _Staged:
    """What was copied into a session: by path the source, and the copy as it was then."""

    copies: dict[str, tuple[str, str, Version, Version]] = field(default_factory=dict)


class Places:
    """The sessions of this face, of all its callers."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._staged: WeakKeyDictionary[LiveSession, _Staged] = WeakKeyDictionary()

    @asynccontextmanager
    async def hold(self, workspace_id: str | None) -> AsyncIterator[None]:
        """Held while code runs there: which files a run has changed could not be told of two. Raises SessionBusy."""
        if workspace_id is None:
            yield
            return
        lock = self._locks.setdefault(workspace_id, asyncio.Lock())
        try:
            async with asyncio.timeout(self._services.settings.command_timeout_seconds):
                await lock.acquire()
        except TimeoutError:
            raise SessionBusy("another run of this conversation has not ended yet") from None
        try:
            yield
        finally:
            lock.release()

    async def choose(self, principal: Principal, body: ExecuteCode) -> str | None:
        """The workspace that the code is at home in; None: it gets a new one. Raises NotFound."""
        if body.runtime_session_hint:
            return name_session(principal.id, body.runtime_session_hint)
        if body.session_id:
            workspace_id = parse_id(body.session_id)
            if (await self._services.workspaces.find_session(principal, workspace_id))[0] is not None:
                return workspace_id
        seen: set[str] = set()
        for file in reversed(body.files or []):
            if file.is_shared or file.session in seen:
                continue
            seen.add(file.session)
            try:
                workspace_id = parse_id(file.session)
                session_id, _ = await self._services.workspaces.find_session(principal, workspace_id)
            except NotFound:
                continue
            if session_id is not None:
                return workspace_id
        return None

    async def open(self, principal: Principal, workspace_id: str | None) -> Place:
        """A live session over this workspace, started now if there is none; over a new one for None."""
        services, wanted = self._services, StartSession(environment=self._services.settings.librechat_environment)
        if workspace_id is None:
            session = await services.sessions.start(principal, wanted)
            return Place(session.workspace_id, session.id, is_new=True)
        try:
            session_id, live = await services.workspaces.find_session(principal, workspace_id)
        except NotFound:  # of a conversation that its client names
            try:
                session = await services.sessions.start(principal, wanted, workspace_id)
            except WorkspaceInUse:  # its workspace was removed, and ids are given once
                session = await services.sessions.start(principal, wanted)
            return Place(session.workspace_id, session.id, is_new=True)
        if live and session_id is not None:
            return Place(workspace_id, session_id)
        session = await services.sessions.start(principal, msgspec.structs.replace(wanted, workspace_id=workspace_id))
        return Place(workspace_id, session.id, is_new=True)

    async def list_files(self, principal: Principal, workspace_id: str) -> list[FileEntry]:
        """The files of a workspace; raises NotFound."""
        session_id, live = await self._services.workspaces.find_session(principal, workspace_id)
        if live and session_id is not None:
            page = await self._services.files.list(principal, session_id, "", recursive=True)
        else:
            page = await self._services.workspaces.list_files(principal, workspace_id)
        return [each for each in page.items if each.kind == "file"]

    async def find(self, principal: Principal, workspace_id: str, file_id: str) -> FileEntry:
        """The file of an id; raises NotFound."""
        return _find(await self.list_files(principal, workspace_id), file_id)

    async def read(self, principal: Principal, workspace_id: str, path: str) -> tuple[FileEntry, AsyncIterator[bytes]]:
        """A file and its bytes, which the caller closes."""
        session_id, live = await self._services.workspaces.find_session(principal, workspace_id)
        if live and session_id is not None:
            reading = await self._services.files.read(principal, session_id, path)
            return reading.file.entry, reading.chunks
        return await self._services.workspaces.read(principal, workspace_id, path)

    async def remove(self, principal: Principal, workspace_id: str, path: str) -> None:
        session_id, live = await self._services.workspaces.find_session(principal, workspace_id)
        if live and session_id is not None:
            await self._services.files.remove(principal, session_id, path)
        else:
            await self._services.workspaces.remove(principal, workspace_id, path)

    async def stage(self, principal: Principal, place: Place, inputs: list[InputFile]) -> list[str]:
        """Copy files to where the code runs, those that are not there as they are; the names of the missing."""
        live = self._services.registry.find(principal, place.session_id)
        staged = _Staged() if live is None else self._staged.setdefault(live, _Staged())
        seen: dict[str, list[FileEntry]] = {}
        missing, paths = [], set()
        for each in inputs:
            try:
                paths.add(await self._stage(principal, place, each, staged, seen))
            except (NotFound, InvalidRequest):
                missing.append(each.name)
        staged.copies = {path: copy for path, copy in staged.copies.items() if path in paths}
        return missing

    async def _stage(
        self,
        principal: Principal,
        place: Place,
        file: InputFile,
        staged: _Staged,
        seen: dict[str, list[FileEntry]],
    ) -> str:
        """Its path; `seen` are the files of workspaces that were listed for this run."""
        source, path = parse_id(file.session), clean_path(file.name)
        for each in {source, place.workspace_id} - seen.keys():
            seen[each] = await self.list_files(principal, each)
        found = _find(seen[source], file.id)
        if source == place.workspace_id and found.path == path:
            return path
        here = [version_of(each) for each in seen[place.workspace_id] if each.path == path]
        known = staged.copies.get(path)
        if known is None or not here or known != (source, file.id, version_of(found), here[0]):
            _, chunks = await self.read(principal, source, found.path)
            written = await self._services.files.write(principal, place.session_id, path, chunks)
            staged.copies[path] = (source, file.id, version_of(found), version_of(written))
        return path


def _find(files: list[FileEntry], file_id: str) -> FileEntry:
    for each in files:
        if identify_file(each.path) == file_id:
            return each
    raise NotFound("File not found")


def version_of(file: FileEntry) -> Version:
    return file.size, file.modified_at
