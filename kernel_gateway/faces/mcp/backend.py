"""The tools' backend over the services themselves, for one principal. It translates and decides nothing."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from kernel_gateway.errors import GatewayError
from kernel_gateway.faces.json_bodies import encode
from kernel_gateway.faces.responses import close_iterator
from kernel_gateway.identity.principal import Principal
from kernel_gateway.services.workspaces.files import LiveFile
from sandcell.errors import InvalidRequest, error_of
from sandcell.models.commands import Command, CommandRequest
from sandcell.models.environments import EnvironmentInfo
from sandcell.models.executions import Execution, Submission
from sandcell.models.inspection import Variables
from sandcell.models.replays import Replay, ReplayRequest
from sandcell.models.sessions import Session, StartSession, UndoRequest
from sandcell.models.workspaces import FileEntry
from sandcell.tools.addresses import MOST_RESOURCE_BYTES
from sandcell.tools.backends.protocol import FilePart, OnEvent

if TYPE_CHECKING:
    from kernel_gateway.services.composition import Services

FACE: Final = "mcp"
"""What the record says that an execution came through."""
MOST_PATH_BYTES: Final = 4_096
"""A path that a tool is given."""


class ServiceBackend:
    """What the tools do for one principal."""

    def __init__(self, services: Services, principal: Principal) -> None:
        self._services = services
        self._principal = principal

    @property
    def most_seconds(self) -> float:
        return self._services.settings.execution_timeout_max_seconds

    async def get_environment(self, name: str) -> EnvironmentInfo:
        with translated():
            return await self._services.environments.get(self._principal, name)

    async def start_session(self, request: StartSession) -> Session:
        start = self._services.sessions.start if request.from_ is None else self._services.forks.start
        with translated():
            return await start(self._principal, request)

    async def get_session(self, session_id: str) -> Session:
        with translated():
            return await self._services.sessions.get(self._principal, session_id)

    async def stop_session(self, session_id: str) -> Session:
        with translated():
            return await self._services.sessions.stop(self._principal, session_id)

    async def execute(
        self, session_id: str, submission: Submission, on_event: OnEvent | None, key: str | None
    ) -> Execution:
        """A caller that is cancelled while its code is being submitted leaves none behind that runs on."""
        executions = self._services.executions
        work = executions.submit(self._principal, session_id, submission, key, face=FACE)
        submitting = self._services.background.spawn(work, f"submit in {session_id}")
        try:
            with translated():
                begun = await asyncio.shield(submitting)
                if on_event is not None:
                    await self._follow(begun, on_event)
                return await executions.wait(self._principal, session_id, begun.id)
        except asyncio.CancelledError:
            self._services.background.spawn(self._interrupt(submitting), f"interrupt in {session_id}")
            raise

    async def _follow(self, begun: Execution, on_event: OnEvent) -> None:
        events = await self._services.executions.events(self._principal, begun.session_id, begun.id)
        try:
            async for event in events:
                on_event(event)
        finally:
            await close_iterator(events)

    async def _interrupt(self, submitting: asyncio.Task[Execution]) -> None:
        begun = await submitting
        await self._services.executions.interrupt(self._principal, begun.session_id, begun.id)

    async def get_execution(self, session_id: str, execution_id: str) -> Execution:
        with translated():
            return await self._services.executions.get(self._principal, session_id, execution_id)

    async def run_command(self, session_id: str, request: CommandRequest) -> Command:
        with translated():
            return await self._services.commands.run(self._principal, session_id, request, face=FACE)

    async def write_file(self, session_id: str, path: str, content: bytes) -> FileEntry:
        checked = check_path(path)
        with translated():
            refused = await self._services.files.write_all(self._principal, session_id, [(checked, content)])
            for _, error in refused:
                raise error
        return FileEntry(checked, "file", len(content), "")

    async def read_file(self, session_id: str, path: str, start: int, most_bytes: int) -> FilePart:
        def choose(file: LiveFile) -> tuple[int, int]:
            begin = min(start, file.size)
            return begin, min(begin + most_bytes, file.size)

        content = bytearray()
        with translated():
            reading = await self._services.files.read(self._principal, session_id, check_path(path), choose)
            async with contextlib.aclosing(reading.chunks) as chunks:
                async for chunk in chunks:
                    content += chunk
                    if len(content) > most_bytes:  # a guest of before that has no parts
                        raise InvalidRequest(f"{path} cannot be read in parts in this session: restart it")
        return FilePart(bytes(content), reading.end < reading.file.size)

    async def list_files(self, session_id: str, path: str, *, recursive: bool) -> list[FileEntry]:
        found, cursor = list[FileEntry](), None
        checked = check_path(path) if path else ""
        with translated():
            while True:
                page = await self._services.files.list(
                    self._principal, session_id, checked, recursive=recursive, cursor=cursor
                )
                found += page.items
                cursor = page.next_cursor
                if cursor is None:
                    return found

    async def list_variables(self, session_id: str) -> Variables:
        with translated():
            return await self._services.inspection.variables(self._principal, session_id)

    async def interrupt(self, session_id: str) -> None:
        with translated():
            await self._services.sessions.interrupt(self._principal, session_id)

    async def restart(self, session_id: str) -> Session:
        with translated():
            return await self._services.sessions.restart(self._principal, session_id)

    async def undo(self, session_id: str, cells: int) -> Session:
        with translated():
            return await self._services.undo.undo(self._principal, session_id, UndoRequest(cells))

    async def replay(self, session_id: str, inputs: str | None) -> Replay:
        replays = self._services.replays
        with translated():
            begun = await replays.start(
                self._principal, ReplayRequest(session_id=session_id, inputs=inputs, wait=False)
            )
            try:
                return await replays.wait(self._principal, begun.id)
            except asyncio.CancelledError:
                self._services.background.spawn(replays.stop(self._principal, begun.id), f"stop of replay {begun.id}")
                raise

    async def read_notebook(self, session_id: str) -> bytes:
        with translated():
            reading = await self._services.notebooks.read(self._principal, session_id)
            try:
                if reading.size > MOST_RESOURCE_BYTES:
                    raise InvalidRequest(f"the notebook has more than {MOST_RESOURCE_BYTES:,} bytes")
                return b"".join([chunk async for chunk in reading.chunks])
            finally:
                await close_iterator(reading.chunks)


@contextlib.contextmanager
def translated() -> Iterator[None]:
    """The service's errors as those that its clients get, which the tools know."""
    try:
        yield
    except GatewayError as error:
        raise error_of(error.status, encode(error.body())) from error


def check_path(path: str) -> str:
    """A path below the workspace; raises InvalidRequest for one that leads elsewhere."""
    parts = path.split("/")
    size = len(path.encode("utf-8", "surrogatepass"))
    if path.startswith("/") or "\0" in path or not {"", ".", ".."}.isdisjoint(parts) or size > MOST_PATH_BYTES:
        raise InvalidRequest(f"{path[:200]!r} is no path below /workspace", code="invalid_path")
    return path
