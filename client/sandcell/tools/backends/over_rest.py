"""The tools' backend over a service's REST interface, by `AsyncClient`."""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from collections.abc import Coroutine
from typing import Any, Final

from sandcell.errors import InvalidRequest, SandcellError
from sandcell.models.commands import Command, CommandRequest
from sandcell.models.environments import EnvironmentInfo
from sandcell.models.executions import Execution, Submission
from sandcell.models.inspection import Variables
from sandcell.models.replays import Replay
from sandcell.models.sessions import Session, StartSession
from sandcell.models.workspaces import FileEntry
from sandcell.nonblocking import AsyncClient
from sandcell.operations.files import download_part
from sandcell.operations.sessions import EXECUTION_SECONDS
from sandcell.tools.backends.protocol import FilePart, OnEvent

INTERRUPT_SECONDS: Final = 30.0
"""How long an interrupt of what was cancelled may take."""


class RestBackend:
    """A service by its client, which belongs to the caller."""

    def __init__(self, client: AsyncClient, most_seconds: float = EXECUTION_SECONDS) -> None:
        self._client = client
        self.most_seconds = most_seconds

    async def get_environment(self, name: str) -> EnvironmentInfo:
        return await self._client.get_environment(name)

    async def start_session(self, request: StartSession) -> Session:
        if request.from_ is not None:
            if request.environment or request.workspace_id:
                raise InvalidRequest("a fork has the environment and the files of its session: give none")
            return await self._client.fork_session(
                request.from_.session,
                name=request.name,
                idle_timeout_seconds=request.idle_timeout_seconds,
                labels=request.labels or None,
            )
        return await self._client.start_session(
            request.environment,
            name=request.name,
            workspace_id=request.workspace_id,
            idle_timeout_seconds=request.idle_timeout_seconds,
            labels=request.labels or None,
        )

    async def get_session(self, session_id: str) -> Session:
        return await self._client.get_session(session_id)

    async def stop_session(self, session_id: str) -> Session:
        return await self._client.stop_session(session_id)

    async def execute(
        self, session_id: str, submission: Submission, on_event: OnEvent | None, key: str | None
    ) -> Execution:
        key = key or str(uuid.uuid4())
        seconds = submission.timeout_seconds
        try:
            if on_event is None:
                done = await self._client.run(session_id, submission.code, timeout_seconds=seconds, idempotency_key=key)
                return done.execution
            begun = await self._client.submit(session_id, submission.code, timeout_seconds=seconds, idempotency_key=key)
            async with contextlib.aclosing(self._client.events(session_id, begun.id)) as events:
                async for event in events:
                    on_event(event)
            return await self._client.get_execution(session_id, begun.id)
        except asyncio.CancelledError:
            await _finish(self._interrupt_submitted(session_id, submission.code, seconds, key))
            raise

    async def _interrupt_submitted(self, session_id: str, code: str, seconds: float | None, key: str) -> None:
        """The same key finds the execution, whether or not its answer has come."""
        found = await self._client.submit(session_id, code, timeout_seconds=seconds, idempotency_key=key)
        await self._client.interrupt_execution(session_id, found.id)

    async def get_execution(self, session_id: str, execution_id: str) -> Execution:
        return await self._client.get_execution(session_id, execution_id)

    async def run_command(self, session_id: str, request: CommandRequest) -> Command:
        return await self._client.command(
            session_id,
            request.command,
            timeout_seconds=request.timeout_seconds,
            stop_when_gone=True,
            idempotency_key=str(uuid.uuid4()),
        )

    async def write_file(self, session_id: str, path: str, content: bytes) -> FileEntry:
        return await self._client.upload(session_id, path, content)

    async def read_file(self, session_id: str, path: str, start: int, most_bytes: int) -> FilePart:
        content = await self._client.carry_out(download_part(session_id, path, start, most_bytes + 1))
        return FilePart(content[:most_bytes], len(content) > most_bytes)

    async def list_files(self, session_id: str, path: str, *, recursive: bool) -> list[FileEntry]:
        return await self._client.files(session_id, path, recursive=recursive)

    async def list_variables(self, session_id: str) -> Variables:
        return await self._client.variables(session_id)

    async def interrupt(self, session_id: str) -> None:
        await self._client.interrupt(session_id)

    async def restart(self, session_id: str) -> Session:
        return await self._client.restart(session_id)

    async def undo(self, session_id: str, cells: int) -> Session:
        return await self._client.undo(session_id, cells)

    async def replay(self, session_id: str, inputs: str | None) -> Replay:
        begun = await self._client.start_replay(session_id=session_id, inputs=inputs)
        try:
            return await self._client.wait_replay(begun.id)
        except asyncio.CancelledError:
            await _finish(self._client.stop_replay(begun.id))
            raise

    async def read_notebook(self, session_id: str) -> bytes:
        return await self._client.notebook(session_id)


async def _finish(work: Coroutine[Any, Any, Any]) -> None:
    """Do what a cancelled call still has to do; within a deadline, and whatever comes of it."""
    task = asyncio.ensure_future(work)
    with contextlib.suppress(SandcellError, TimeoutError, asyncio.CancelledError):
        await asyncio.wait_for(asyncio.shield(task), INTERRUPT_SECONDS)
