"""Where code runs and files are: a live session over a workspace, or the workspace alone.

A run is at home in the storage session of the files that it was given last, if code made that session. What was only
uploaded belongs to no run: its files are copied to where the code runs. So a conversation keeps one sandbox, an agent's
files are in many, and no conversation writes into another's.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary, WeakValueDictionary

import msgspec

from kernel_gateway.errors import GatewayError, InvalidRequest, NotFound, SessionBusy
from kernel_gateway.faces.calls import AdmittedCall
from kernel_gateway.faces.librechat.identifiers import clean_path, identify_file, name_session, parse_id
from kernel_gateway.faces.librechat.listings import Listing, Version, version_of
from kernel_gateway.faces.librechat.requests import ExecuteCode, InputFile
from kernel_gateway.identity.principal import Principal
from kernel_gateway.services.sessions.live_session import LiveSession
from sandcell.models.sessions import StartSession
from sandcell.models.workspaces import FileEntry

if TYPE_CHECKING:
    from kernel_gateway.services.composition import Services


class Place(msgspec.Struct, frozen=True):
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
            return await find_named_workspace(self._services, principal, body.runtime_session_hint)
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
            session = await services.sessions.start(principal, wanted, workspace_id)
            return Place(session.workspace_id, session.id, is_new=True)
        if live and session_id is not None:
            return Place(workspace_id, session_id)
        session = await services.sessions.start(principal, msgspec.structs.replace(wanted, workspace_id=workspace_id))
        return Place(workspace_id, session.id, is_new=True)

    async def list_files(self, principal: Principal, workspace_id: str, *, private: bool = True) -> Listing:
        """The files of a workspace; without `private`, not those in directories that programs keep. Raises NotFound."""
        session_id, live = await self._services.workspaces.find_session(principal, workspace_id)
        if live and session_id is not None:
            page = await self._services.files.list(principal, session_id, "", recursive=True, private=private)
        else:
            page = await self._services.workspaces.list_files(principal, workspace_id, private=private)
        return Listing([each for each in page.items if each.kind == "file"], page.next_cursor is None)

    async def look(self, principal: Principal, workspace_id: str) -> Listing:
        """As `list_files` without private ones; for what can do without, nothing where it fails."""
        try:
            return await self.list_files(principal, workspace_id, private=False)
        except GatewayError as error:
            return Listing([], whole=False, problem=error)

    async def find(self, principal: Principal, workspace_id: str, file_id: str) -> FileEntry:
        """The file of an id; raises NotFound."""
        for private in (False, True):
            found = (await self.list_files(principal, workspace_id, private=private)).by_id.get(file_id)
            if found is not None:
                return found
        raise NotFound("File not found")

    async def _stat(self, principal: Principal, workspace_id: str, path: str) -> FileEntry | None:
        """The file at a path; None when there is none."""
        session_id, live = await self._services.workspaces.find_session(principal, workspace_id)
        try:
            if live and session_id is not None:
                found: FileEntry = await self._services.files.stat(principal, session_id, path)
            else:
                found = await self._services.workspaces.stat(principal, workspace_id, path)
        except NotFound:
            return None
        return found if found.kind == "file" else None

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
        seen: dict[str, Listing] = {}
        missing, paths = [], set()
        for each in inputs:
            try:
                paths.add(await self._stage(principal, place, each, staged, seen))
            except (NotFound, InvalidRequest):
                missing.append(each.name)
        staged.copies = {path: copy for path, copy in staged.copies.items() if path in paths}
        return missing

    async def _stage(
        self, principal: Principal, place: Place, file: InputFile, staged: _Staged, seen: dict[str, Listing]
    ) -> str:
        """Its path; `seen` are the files of workspaces that were listed for this run."""
        source, path = parse_id(file.session), clean_path(file.name)
        for each in {source, place.workspace_id} - seen.keys():
            seen[each] = await self.look(principal, each)
        own = file.id == identify_file(path)
        found = seen[source].by_path.get(path) if own else seen[source].by_id.get(file.id)
        if found is None and own:  # the listing may not reach it
            found = await self._stat(principal, source, path)
        if found is None:
            raise seen[source].problem or NotFound("File not found")
        if source == place.workspace_id and found.path == path:
            return path
        known = staged.copies.get(path)
        here = seen[place.workspace_id].by_path.get(path)
        if known is not None and here is None:
            here = await self._stat(principal, place.workspace_id, path)
        if known is None or here is None or known != (source, file.id, version_of(found), version_of(here)):
            _, chunks = await self.read(principal, source, found.path)
            written = await self._services.files.write(principal, place.session_id, path, chunks)
            staged.copies[path] = (source, file.id, version_of(found), version_of(written))
        return path


async def find_named_workspace(services: Services, principal: Principal, hint: str) -> str:
    """The first of a conversation's workspaces that was not removed: ids are given once."""
    for number in itertools.count():
        workspace_id = name_session(principal.id, hint, number)
        if not await services.workspaces.is_gone(workspace_id):
            break
    return workspace_id


@dataclass(kw_only=True)
class Call(AdmittedCall):
    """What an endpoint of this face gets."""

    places: Places
