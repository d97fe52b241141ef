"""Looks into a session's Python kernel: the names its code has defined, what completes code, what is known of a name.

The names are looked at while anything runs, without running any of the session's code. Completion and inspection are
the kernel's own work, between cells, and may run code of the session's: a property, `__dir__`. None is an execution.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final, TypeVar

import msgspec

from kernel_gateway.errors import DeadlinePassed, InvalidRequest, NotFound, SessionBusy, translated
from kernel_gateway.identity.principal import Principal
from kernel_gateway.services.background import Background
from kernel_gateway.services.executions.executions import check_code
from kernel_gateway.services.sessions.kernel_requests import reach_kernel, require_read
from kernel_gateway.services.sessions.live_session import LiveSession
from kernel_gateway.services.sessions.registry import Registry
from kernel_gateway.settings import Settings
from kernels.cancelling import cancel_all
from kernels.execution import frames, introspection, variables
from kernels.execution.hub import Hub
from kernels.wire.message import Message
from sandcell.models.constraints import MOST_LOOK_SECONDS
from sandcell.models.inspection import (
    ArrayPicture,
    ColumnSummary,
    CompletionMatch,
    CompletionRequest,
    Completions,
    FrequentValue,
    InspectedName,
    InspectionRequest,
    LookRequest,
    RowsRequest,
    TableColumn,
    TableRows,
    Timed,
    Variable,
    Variables,
)

T = TypeVar("T")
CLOSE_SECONDS: Final = 10.0
NOT_SHOWN: Final = {
    "rows": "is no table: rows are of frames, series and arrays",
    "picture": "is no picture: those are of numpy's arrays of numbers, with two axes or with three or four channels",
    "text": "is held by a kernel that cannot show it as text; restart it",
}
LOOKS: Final = ("complete_request", "inspect_request", frames.REQUEST)


class Inspection:
    """Looking is no activity that keeps a session from idling, and leaves nothing in its notebook or history."""

    def __init__(self, registry: Registry, background: Background, settings: Settings) -> None:
        self._registry = registry
        self._background = background
        self._settings = settings
        self._looks: dict[str, asyncio.Task[Variables]] = {}

    async def variables(self, principal: Principal, session_id: str) -> Variables:
        """The variables of the session's Python kernel. Who asks while a look is under way gets its answer."""
        live = await self._registry.require(principal, session_id)
        look = self._looks.get(session_id)
        if look is None:
            look = self._looks[session_id] = asyncio.create_task(self._look(live), name=f"variables of {session_id}")
            look.add_done_callback(partial(self._forget, session_id))
        return await asyncio.shield(look)

    async def complete(self, principal: Principal, session_id: str, request: CompletionRequest) -> Completions:
        """What may stand at a position of code; raises SessionBusy while code runs, DeadlinePassed."""
        live = await self._registry.require(principal, session_id)
        position = self._find_position(request)
        ask = partial(introspection.complete, code=request.code, position=position)
        hub, found = await self._ask(live, request, len(request.code), ask)
        matches = [CompletionMatch(each.text, each.type, each.signature) for each in found.matches]
        return Completions(hub.generation, matches, found.start, found.end, found.omitted)

    async def inspect(self, principal: Principal, session_id: str, request: InspectionRequest) -> InspectedName:
        """What is known of the name at a position of code; raises as `complete`."""
        live = await self._registry.require(principal, session_id)
        position = self._find_position(request)
        ask = partial(introspection.inspect, code=request.code, position=position, detail=request.detail)
        hub, found = await self._ask(live, request, len(request.code), ask)
        return InspectedName(hub.generation, found.found, found.data, found.truncated)

    async def rows(self, principal: Principal, session_id: str, request: RowsRequest) -> TableRows:
        """Rows of the table under a name, or the value there as a picture or a text.

        Raises as `complete`, NotFound, InvalidRequest for what is no table or no picture.
        """
        live = await self._registry.require(principal, session_id)
        _check_patience(request)
        ask = partial(
            frames.ask,
            name=request.name,
            first=request.first,
            count=request.count,
            histograms=request.histograms,
            show=request.show,
        )
        hub, found = await self._ask(live, request, len(request.name), ask)
        if not found.found:
            raise NotFound(f"there is no variable {request.name[:100]!r}")
        if not _is_shown(found, request.show):
            raise InvalidRequest(f"{request.name[:100]!r} {NOT_SHOWN[request.show]}")
        return _build_rows(hub.generation, request.first, found)

    async def aclose(self) -> None:
        """Give up the looks that are under way."""
        await cancel_all(self._looks.values(), CLOSE_SECONDS)

    def _forget(self, session_id: str, look: asyncio.Task[Variables]) -> None:
        del self._looks[session_id]
        if not look.cancelled():
            look.exception()  # there may be no caller left to hear of it

    async def _look(self, live: LiveSession) -> Variables:
        hub = await reach_kernel(live)
        with translated():
            found = await variables.ask(hub)
        return Variables(
            hub.generation, [Variable(**msgspec.structs.asdict(each)) for each in found.variables], found.omitted
        )

    def _find_position(self, request: LookRequest) -> int:
        """The position in the code; raises InvalidRequest, PayloadTooLarge."""
        check_code(request.code, self._settings.code_bytes)
        position = len(request.code) if request.cursor_position is None else request.cursor_position
        if not 0 <= position <= len(request.code):
            raise InvalidRequest(
                f"cursor_position is from 0 to {len(request.code)}, the number of the code's characters"
            )
        _check_patience(request)
        return position

    async def _ask(
        self, live: LiveSession, request: Timed, characters: int, ask: Callable[..., Awaitable[T]]
    ) -> tuple[Hub, T]:
        """Ask the kernel, between cells; all of it within the caller's deadline."""
        _require_free(live)
        seconds = request.timeout_seconds
        try:
            async with asyncio.timeout(seconds):
                hub = await self._background.carry_out(reach_kernel(live), f"kernel of {live.id}")
                _require_free(live)  # a cell may have begun meanwhile; one that begins now has to wait for the answer
                require_read(hub, "shell", characters, self._settings.attach_message_bytes)
                _follow_look(live, hub)
                with translated():
                    return hub, await ask(hub, deadline_seconds=seconds)
        except (TimeoutError, DeadlinePassed):
            raise DeadlinePassed(f"the session's kernel did not answer within {seconds:g} s") from None


def _is_shown(found: frames.Rows, show: str) -> bool:
    """Whether a kernel's answer, which may be an older guest's, has what was asked for."""
    if show == "rows":
        return found.table
    return (found.picture if show == "picture" else found.text) is not None


def _build_rows(generation: int, first: int, found: frames.Rows) -> TableRows:
    columns = [TableColumn(name, kind) for name, kind in found.columns]
    for column, summary in zip(columns, found.summaries, strict=False):  # there may have been no time for the last
        fields = msgspec.structs.asdict(summary)
        column.summary = ColumnSummary(**{**fields, "frequent": [FrequentValue(*each) for each in summary.frequent]})
    picture = None if found.picture is None else ArrayPicture(**msgspec.structs.asdict(found.picture))
    return TableRows(
        generation,
        columns,
        found.rows,
        first,
        found.total,
        found.wide,
        summarized=found.summarized,
        stopped=found.stopped,
        picture=picture,
        text=found.text,
        cut=found.cut,
    )


def _check_patience(request: Timed) -> None:
    if not 0 < request.timeout_seconds <= MOST_LOOK_SECONDS:
        raise InvalidRequest(f"timeout_seconds must be more than 0 and at most {MOST_LOOK_SECONDS:g}")


def _follow_look(live: LiveSession, hub: Hub) -> None:
    """The session is looked into until the kernel has answered or is gone.

    That may be after the caller's deadline: the kernel goes on, an interrupt is to reach it, and it is not idle.
    """
    if "look" in live.looks or hub.error is not None:
        return
    live.looks.add("look")

    def end(*_: object) -> None:
        live.looks.discard("look")
        unsubscribe()

    def deliver(channel: str, message: Message) -> None:
        if channel == "shell" and message.parent_type in LOOKS and message.parent_session == hub.session:
            end()

    unsubscribe = hub.subscribe(deliver, failed=end)


def _require_free(live: LiveSession) -> None:
    """Raises SessionBusy while the Python kernel runs a cell: it looks at nothing else until that has ended."""
    running = live.running
    if running is not None and running.row.runtime == "python":
        raise SessionBusy(
            "code runs in the session, and its kernel completes, inspects and shows variables only between cells",
            session_id=live.id,
            execution_id=running.row.id,
        )
