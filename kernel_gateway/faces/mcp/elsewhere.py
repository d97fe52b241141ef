"""The tools' backend of one of several gateways: what is at another is asked for at this gateway's own address.

There a request is passed on as any other, with the token of the call that it is for.
"""

from __future__ import annotations

import asyncio
from contextvars import ContextVar
from typing import TYPE_CHECKING, Final

from kernel_gateway.faces.mcp.backend import ServiceBackend
from kernel_gateway.identity.principal import Principal
from sandcell.errors import NotFound
from sandcell.models.commands import Command, CommandRequest
from sandcell.models.executions import Execution, Submission
from sandcell.models.inspection import Variables
from sandcell.models.replays import Replay
from sandcell.models.sessions import Session, StartSession
from sandcell.models.workspaces import FileEntry
from sandcell.tools.backends.protocol import Backend, FilePart, OnEvent

if TYPE_CHECKING:
    from kernel_gateway.services.composition import Services
    from sandcell.nonblocking import AsyncClient

MOST_CLIENTS: Final = 4
"""Tokens of one conversation that are in use at once; the oldest's calls end."""
TOKEN: Final = ContextVar("TOKEN", default="")
"""What the call that is being answered was made with: a conversation's calls may run beside each other."""


class GatewayBackend(ServiceBackend):
    """Of one conversation; `aclose` when it is over. `token`: the last one, for what no call does."""

    def __init__(self, services: Services, principal: Principal, token: str) -> None:
        super().__init__(services, principal)
        self.token = token
        self._here = ServiceBackend(services, principal)
        self._clients: dict[str, AsyncClient] = {}
        self._closed = False

    async def aclose(self) -> None:
        self._closed = True
        clients, self._clients = self._clients, {}
        await asyncio.gather(*(each.aclose() for each in clients.values()))

    async def _of(self, kind: str, name: str) -> Backend:
        """What is asked about a session or a workspace."""
        gateways = self._services.gateways
        if gateways.lease is None or (kind == "session" and gateways.lives_here(name)):
            return self._here
        home = await gateways.find(kind, name)
        if home is None or gateways.is_self(home):
            if home is not None:
                await gateways.wait_arrived(home)
            return self._here
        from sandcell.nonblocking import AsyncClient  # noqa: PLC0415 - with an HTTP client, which most services never need
        from sandcell.tools.backends.over_rest import RestBackend  # noqa: PLC0415

        if self._closed:
            raise NotFound("this MCP session has ended")
        token = TOKEN.get() or self.token
        client = self._clients.get(token)
        if client is None:
            client = self._clients[token] = AsyncClient(gateways.lease.place.address, token)
            if len(self._clients) > MOST_CLIENTS:
                await self._clients.pop(next(iter(self._clients))).aclose()
        return RestBackend(client, self.most_seconds)

    async def start_session(self, request: StartSession) -> Session:
        backend: Backend = self._here
        if request.from_ is not None:
            backend = await self._of("session", request.from_.session)
        elif request.workspace_id:
            backend = await self._of("workspace", request.workspace_id)
        return await backend.start_session(request)

    async def get_session(self, session_id: str) -> Session:
        return await (await self._of("session", session_id)).get_session(session_id)

    async def stop_session(self, session_id: str) -> Session:
        return await (await self._of("session", session_id)).stop_session(session_id)

    async def execute(
        self, session_id: str, submission: Submission, on_event: OnEvent | None, key: str | None
    ) -> Execution:
        return await (await self._of("session", session_id)).execute(session_id, submission, on_event, key)

    async def get_execution(self, session_id: str, execution_id: str) -> Execution:
        return await (await self._of("session", session_id)).get_execution(session_id, execution_id)

    async def run_command(self, session_id: str, request: CommandRequest) -> Command:
        return await (await self._of("session", session_id)).run_command(session_id, request)

    async def write_file(self, session_id: str, path: str, content: bytes) -> FileEntry:
        return await (await self._of("session", session_id)).write_file(session_id, path, content)

    async def read_file(self, session_id: str, path: str, start: int, most_bytes: int) -> FilePart:
        return await (await self._of("session", session_id)).read_file(session_id, path, start, most_bytes)

    async def list_files(self, session_id: str, path: str, *, recursive: bool) -> list[FileEntry]:
        return await (await self._of("session", session_id)).list_files(session_id, path, recursive=recursive)

    async def list_variables(self, session_id: str) -> Variables:
        return await (await self._of("session", session_id)).list_variables(session_id)

    async def interrupt(self, session_id: str) -> None:
        await (await self._of("session", session_id)).interrupt(session_id)

    async def restart(self, session_id: str) -> Session:
        return await (await self._of("session", session_id)).restart(session_id)

    async def undo(self, session_id: str, cells: int) -> Session:
        return await (await self._of("session", session_id)).undo(session_id, cells)

    async def replay(self, session_id: str, inputs: str | None) -> Replay:
        return await (await self._of("session", session_id)).replay(session_id, inputs)

    async def read_notebook(self, session_id: str) -> bytes:
        return await (await self._of("session", session_id)).read_notebook(session_id)
