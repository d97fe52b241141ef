"""Moves of the widgets that executions show, as Jupyter's front ends make them: a message to the kernel, between cells.

What the callbacks print and change meanwhile is late output of the execution that shows the widget, and so on record.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

import msgspec

from kernel_gateway.errors import DeadlinePassed, InvalidRequest, NotFound, PayloadTooLarge, SessionBusy, translated
from kernel_gateway.identity.principal import Principal
from kernel_gateway.services.background import Background
from kernel_gateway.services.sessions.kernel_requests import reach_kernel, require_read
from kernel_gateway.services.sessions.live_session import LiveSession
from kernel_gateway.services.sessions.registry import Registry
from kernel_gateway.settings import Settings
from kernel_gateway.storage import executions
from kernel_gateway.storage.database import Database
from kernels.execution.hub import Hub
from kernels.execution.outputs import OutputCaps, OutputCollector
from kernels.languages import PYTHON
from kernels.wire.message import Message
from sandcell.models.executions import WidgetEvent, WidgetMove, WidgetMoved

PATIENCE_SECONDS: Final = 20.0
MOST_MOVE_BYTES: Final = 64 * 1024
TOLD: Final = OutputCaps(text_bytes=256 * 1024, rich_bytes=4 * 1024 * 1024)
"""What an answer has of the events; the record has its own bounds."""


class WidgetMoves:
    """One at a time in a session: another meanwhile is refused as `SessionBusy`."""

    def __init__(self, registry: Registry, database: Database, background: Background, settings: Settings) -> None:
        self._registry = registry
        self._database = database
        self._background = background
        self._settings = settings
        self._moving: set[str] = set()

    async def move(
        self, principal: Principal, session_id: str, execution_id: str, move: WidgetMove, lease: str | None = None
    ) -> WidgetMoved:
        """Change values of a widget, or click it, and stay until its callbacks have run.

        Raises NotFound, SessionBusy while code or another move runs or another's lease lasts, InvalidRequest,
        PayloadTooLarge, and DeadlinePassed when the callbacks go on for longer.
        """
        content = _build_message(move)
        live = await self._registry.require(principal, session_id)
        live.require_unleased(lease)
        shown = await self._database.run(lambda c: executions.find(c, session_id, execution_id, outcome=False))
        if shown is None:
            raise NotFound("there is no such execution in this session")
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                self._require_free(live)
                hub = await self._background.carry_out(reach_kernel(live), f"kernel of {live.id}")
                self._require_free(live)  # a cell may have begun meanwhile
                _require_shown(hub, move)
                require_read(hub, "shell", MOST_MOVE_BYTES, self._settings.attach_message_bytes)
                live.touch()
                events = await self._send(live, hub, execution_id, content)
        except TimeoutError:
            raise DeadlinePassed(f"what the widget calls had not ended after {PATIENCE_SECONDS:g} s") from None
        return WidgetMoved(hub.generation, events)

    def _require_free(self, live: LiveSession) -> None:
        running = live.running
        if running is not None and running.row.runtime == PYTHON:
            raise SessionBusy(
                "code runs in the session: its widgets are moved between cells",
                session_id=live.id,
                execution_id=running.row.id,
            )
        if live.id in self._moving:
            raise SessionBusy("a widget of the session is being moved", session_id=live.id)

    def _send(
        self, live: LiveSession, hub: Hub, execution_id: str, content: dict[str, Any]
    ) -> asyncio.Future[list[WidgetEvent]]:
        """The result is there once the kernel has said that it is done, also when nobody waits any more."""
        collector = OutputCollector(TOLD, hub.widgets)
        events: list[WidgetEvent] = []
        done: asyncio.Future[list[WidgetEvent]] = asyncio.get_running_loop().create_future()

        def end(*_: object) -> None:
            live.looks.discard("move")
            self._moving.discard(live.id)
            unsubscribe()
            live.late.announce(execution_id)
            if not done.done():
                done.set_result(events)

        def deliver(channel: str, message: Message) -> None:
            if channel != "iopub" or message.parent_id != msg_id or message.parent_session != hub.session:
                return
            if message.msg_type == "status" and message.content.get("execution_state") == "idle":
                end()
            elif not message.outgrown:
                found = collector.feed(message.msg_type, message.content)
                events.extend(WidgetEvent(each.kind, each.data) for each in found if each.kind != "beyond")

        with translated():
            msg_id = hub.send("shell", "comm_msg", content)
        hub.runs.attribute(msg_id, hub.session, execution_id)
        self._moving.add(live.id)
        live.looks.add("move")
        unsubscribe = hub.subscribe(deliver, failed=end)
        return done


def _build_message(move: WidgetMove) -> dict[str, Any]:
    """As the widgets' protocol has it (https://ipywidgets.readthedocs.io, "Widget messaging protocol" 2.1)."""
    if (move.event is None) == (not move.state):
        raise InvalidRequest("a move has a `state` or an `event`")
    data: dict[str, Any] = {"method": "custom", "content": {"event": move.event}}
    if move.event is None:
        data = {"method": "update", "state": move.state, "buffer_paths": []}
    try:
        size = len(msgspec.json.encode(data))
    except (ValueError, OverflowError, TypeError):
        raise InvalidRequest("the state has a number that is too long, or what is no text", field="state") from None
    if size > MOST_MOVE_BYTES:
        raise PayloadTooLarge(f"the state has {size:,} bytes; the most is {MOST_MOVE_BYTES:,}")
    return {"comm_id": move.model_id, "data": data}


def _require_shown(hub: Hub, move: WidgetMove) -> None:
    """Only what is displayed can be moved, and of it only what its front end may set."""
    known = hub.widgets.list_movable(move.model_id)
    if not known:
        raise NotFound("the kernel displays no such widget: it was closed, or the kernel is another one")
    others = sorted(move.state.keys() - known)
    if others:
        raise InvalidRequest(f"the widget has no value {others[0][:100]!r} that can be set", field="state")
