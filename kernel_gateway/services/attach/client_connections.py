"""What one attached client sends: cells take their turn in the session's queue, the rest goes to the kernel at once.

Interrupts and shutdowns are the session's own verbs. What is not on the list of `kernels.wire.client_request` is
counted, logged and dropped. Running a cell, answering `input()` and moving a widget is activity; what a page asks by
itself is none.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from dataclasses import dataclass
from typing import Any

import msgspec
import structlog

from kernel_gateway.errors import (
    GatewayError,
    InvalidRequest,
    PayloadTooLarge,
    QueueFull,
    translate,
    translated,
)
from kernel_gateway.identity.principal import Caller, Principal
from kernel_gateway.services.background import Background
from kernel_gateway.services.clock import Clock
from kernel_gateway.services.executions.executions import Executions
from kernel_gateway.services.sessions.kernel_requests import RETRY_SECONDS, reach_kernel, require_read
from kernel_gateway.services.sessions.live_session import LiveSession
from kernel_gateway.services.sessions.sessions import Sessions
from kernel_gateway.services.sessions.subscribers import Cursor, Subscribers
from kernel_gateway.settings import Settings
from kernel_gateway.storage.executions import ExecutionRow
from kernels.errors import KernelsError
from kernels.execution.hub import Hub
from kernels.wire.client_request import WORK, ClientRequest, check_client_request, find_answerable, prepare_cell
from kernels.wire.message import Malformed, json_object
from sandcell.models.sync import ExecutionSync

log = structlog.get_logger(__name__)
LOGGED_REFUSALS = 5
FILELESS = frozenset({"kernel_info_request", "comm_info_request", "history_request", "is_complete_request"})
"""What a kernel answers without a look at files: a client attaches while the workspace is still being restored."""


class AttachedPrincipal(msgspec.Struct, frozen=True):
    """Who attaches: a principal, or the holder of an attach token of theirs (`attached`), who reaches one session.

    `caller` says with which credential; None when there is none.
    """

    principal: Principal
    author: str
    caller: Caller | None = None
    session_id: str | None = None
    can: frozenset[str] = frozenset()
    attached: bool = False


@dataclass(frozen=True)
class Incoming:
    """A client's message: JSON bytes as they were received."""

    channel: str
    header: bytes
    parent_header: bytes
    metadata: bytes
    content: bytes
    buffers: tuple[bytes, ...] = ()


class Reach(msgspec.Struct, frozen=True):
    """What one attachment works on."""

    live: LiveSession
    audience: Subscribers
    settings: Settings
    clock: Clock
    background: Background
    executions: Executions
    sessions: Sessions


class Visit:
    """Takes the messages of one attachment, one after another. `cursor` is set before the first."""

    cursor: Cursor

    def __init__(self, visitor: AttachedPrincipal, reach: Reach) -> None:
        self.refused = 0
        self._visitor = visitor
        self._live = reach.live
        self._audience = reach.audience
        self._settings = reach.settings
        self._background = reach.background
        self._executions = reach.executions
        self._sessions = reach.sessions

    async def take(self, message: Incoming) -> None:
        """Do what a message asks; raises GatewayError when it is refused."""
        try:
            request = self._parse(message)
            self._audience.name(self.cursor, request.session)
            await self._carry_out(request)
        except GatewayError as error:
            self._count(message, error)
            raise

    def _parse(self, message: Incoming) -> ClientRequest:
        most = self._settings.attach_message_bytes
        size = sum(map(len, (message.header, message.parent_header, message.metadata, message.content)))
        size += sum(map(len, message.buffers))
        if size > most:
            raise PayloadTooLarge(f"the message has {size:,} bytes; the most is {most:,}")
        try:
            request = check_client_request(
                message.channel,
                message.header,
                message.content,
                parent_header=message.parent_header or b"{}",
                metadata=message.metadata or b"{}",
                buffers=message.buffers,
            )
        except Malformed as error:
            self._answer_malformed(message, str(error))
            raise InvalidRequest(str(error)) from None
        hub = self._live.sandbox.kernel.hub if self._live.sandbox.kernel is not None else None
        if hub is not None and request.session == hub.session:
            raise InvalidRequest("the header names a session that is not the client's")
        if self._audience.is_pending(request):  # what the kernel says of this one would pass for the end of that
            raise InvalidRequest("a cell with this msg_id waits or runs already: give each message its own")
        return request

    def _answer_malformed(self, message: Incoming, why: str) -> None:
        """Say to this client what is wrong with a request that is known for one."""
        msg_type = find_answerable(message.channel, message.header)
        if msg_type is not None:
            self._audience.refuse(message.channel, msg_type, message.header, self.cursor.client, why)

    def _count(self, message: Incoming, error: GatewayError) -> None:
        self.refused += 1
        if self.refused <= LOGGED_REFUSALS or self.refused % 1_000 == 0:
            channel = message.channel if message.channel in {"shell", "control", "stdin", "iopub"} else "unknown"
            log.info(
                "client_message_refused", session=self._live.id, channel=channel, error=error.code, count=self.refused
            )

    async def _carry_out(self, request: ClientRequest) -> None:
        if request.msg_type == "execute_request":
            await self._execute(request)
        elif request.msg_type == "interrupt_request":
            await self._interrupt(request)
        elif request.msg_type == "shutdown_request":
            self._shut_down(request)
        elif request.msg_type == "kernel_info_request" and self._live.running is not None:
            await self._describe(request)
        else:
            await self._forward(request)

    async def _execute(self, request: ClientRequest) -> None:
        """Queue a cell; one that is refused is answered, so that no client waits for it."""
        self._audience.expect(request, self.cursor.client)
        self._background.spawn(self._queue(request), f"cell for {self._live.id}")
        await asyncio.sleep(0)

    async def _queue(self, request: ClientRequest) -> None:
        """Its place in the queue at once, then its row: what a client sends together is queued together.

        So what follows a cell that fails is there to be aborted.
        """
        try:
            code, prepared = _prepare_cell(request)
            if self._audience.pending_bytes > self._settings.attach_replay_bytes:
                raise QueueFull("the cells that wait hold too many bytes", retry_after_seconds=RETRY_SECONDS)
            await self._executions.submit_attached(
                self._live,
                prepared,
                code,
                author=self._visitor.author,
                told=self._follow_cell,
                declared=self._audience.declared,
            )
        except Exception as error:
            ours = translate(error)
            if ours is not error:
                log.error("cell_not_queued", session=self._live.id, exc_info=error)
            self._audience.conclude(request, error=(type(ours).__name__, ours.message))

    def _follow_cell(self, request: ClientRequest, row: ExecutionRow, sync: ExecutionSync | None) -> None:
        """A cell begins, or has ended and is stored; called for each, whatever became of it."""
        if row.status == "running":
            return self._audience.running(request, held=row.sync == "before_return")
        outcome = row.outcome
        error: tuple[str, str] | None = None
        if row.started is not None and row.status != "ok":
            if outcome is not None and outcome.death is not None:
                error = ("KernelDied", outcome.death.detail)
            elif outcome is not None and outcome.error is not None:
                error = (outcome.error.name, outcome.error.value)
            else:
                error = (row.status.capitalize(), "the kernel gave no answer")
        failed = sync is not None and sync.mode == "before_return" and sync.durable is False
        note = f"[the files are not in the store yet: {sync.error}]\n" if sync is not None and failed else ""
        return self._audience.conclude(request, error=error, note=note)

    async def _interrupt(self, request: ClientRequest) -> None:
        await self._sessions.interrupt(self._visitor.principal, self._live.id)
        self._audience.reply(request, self.cursor.client, "interrupt_reply", {"status": "ok"})

    def _shut_down(self, request: ClientRequest) -> None:
        """A restart or the end of the session, for who may; others' requests are dropped without a word.

        Stopping JupyterLab or a console sends these, and that is no wish to lose an agent's state.
        """
        restart = _asks_for_restart(request)
        allowed = "restart" in self._visitor.can if restart else False
        if self._visitor.attached and not allowed:
            log.info("client_shutdown_dropped", session=self._live.id)
            return
        self._audience.reply(request, self.cursor.client, "shutdown_reply", {"status": "ok", "restart": restart})
        sessions, who, session_id = self._sessions, self._visitor, self._live.id
        verb: Coroutine[Any, Any, object] = (
            sessions.restart(who.principal, session_id, author=who.author)
            if restart
            else sessions.stop(who.principal, session_id)
        )
        self._background.spawn(verb, f"shutdown of {session_id}")

    async def _describe(self, request: ClientRequest) -> None:
        """Who attaches while something runs is not kept waiting for what the kernel has said of itself before."""
        hub = await self._hub(whole=False)
        self._audience.reply(request, self.cursor.client, "kernel_info_reply", {"status": "ok", **hub.kernel_info})

    async def _forward(self, request: ClientRequest) -> None:
        hub = await self._hub(whole=request.msg_type not in FILELESS)
        require_read(hub, request.channel, request.size_bytes, self._settings.attach_message_bytes)
        if request.msg_type in WORK:
            self._live.touch()
        try:
            hub.forward(request)
        except KernelsError as error:
            raise translate(error) from error

    async def _hub(self, *, whole: bool) -> Hub:
        """The connections to the kernel, once there is one, and `whole`: once all files of the workspace are there."""
        self._live.require_live()
        settings = self._settings
        with translated():
            async with asyncio.timeout(settings.start_deadline_seconds + settings.restore_deadline_seconds):
                return await reach_kernel(self._live, whole=whole, declared=self._audience.declared)


def _prepare_cell(request: ClientRequest) -> tuple[str, ClientRequest]:
    try:
        return prepare_cell(request)
    except Malformed as error:
        raise InvalidRequest(str(error)) from None


def _asks_for_restart(request: ClientRequest) -> bool:
    return (json_object(request.content) or {}).get("restart") == msgspec.Raw(b"true")
