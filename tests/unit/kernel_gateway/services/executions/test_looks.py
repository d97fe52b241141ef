"""How long a session counts as looked into: until its kernel has answered, whoever has stopped waiting."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from kernel_gateway.errors import DeadlinePassed, SandboxUnavailable
from kernel_gateway.services.background import Background
from kernel_gateway.services.executions.inspection import Inspection
from kernel_gateway.services.results.jobs import Job
from kernel_gateway.services.sessions.live_session import LiveSession
from kernel_gateway.settings import Settings
from kernel_gateway.storage.sessions import SessionRow
from kernels.errors import SandboxFailed, SandboxGone
from kernels.execution.hub import Hub
from kernels.wire.connection import KernelConnection
from kernels.wire.message import Header, Message
from sandcell.models.inspection import CompletionRequest
from tests.doubles.turned_clock import TurnedClock


async def nobody(name: str, *, patience_seconds: float = 0) -> socket.socket:
    raise SandboxGone(f"nobody listens at {name}")


class LookedInto:
    """A session whose kernel takes requests, and answers when a test says so."""

    def __init__(self) -> None:
        clock = TurnedClock()
        row = SessionRow("s", "p", "w", "", "python", 1, 0.0, 0.0, 1e9, 10**9, 10**9, None, {})
        self.live, self.hub = LiveSession(row, clock), Hub(KernelConnection(nobody, 1, b"key"))
        self.sent: list[object] = []
        self.channel: Any = SimpleNamespace(unsent_bytes=0, send=self.sent.append, close=lambda: None)
        cast("Any", self.hub)._link._channels["shell"] = self.channel
        kernel = SimpleNamespace(hub=self.hub, ready=self._ready)
        self.live.sandbox = cast("Any", SimpleNamespace(ready=lambda: self._ready(kernel)))
        registry: Any = SimpleNamespace(require=lambda *_: self._ready(self.live))
        self.inspection = Inspection(registry, Background(), Settings(data_dir="/x"))

    async def _ready(self, found: object = None) -> object:
        return found

    async def complete(self, seconds: float) -> None:
        await self.inspection.complete(cast("Any", None), "s", CompletionRequest("a", timeout_seconds=seconds))

    def answer(self, channel: str, parent_type: str, session: str | None = None) -> None:
        parent = Header("0", parent_type, self.hub.session if session is None else session)
        message = Message(Header("1", "any", "kernel"), parent, [b"{}"] * 4)
        cast("Any", self.hub)._dispatch(channel, message)


def on(test: Callable[[LookedInto], Awaitable[None]]) -> None:
    async def run() -> None:
        async with asyncio.timeout(120):
            await test(LookedInto())

    asyncio.run(run())


async def be_late(session: LookedInto) -> None:
    """Ask with a deadline that passes while the kernel has the question: on a slow machine it can pass before that."""
    before, seconds = len(session.sent), 0.001
    while len(session.sent) == before:
        with pytest.raises(DeadlinePassed):
            await session.complete(seconds)
        seconds *= 2
    assert session.live.looking, "the kernel goes on"


def test_a_late_answer_ends_the_look() -> None:
    async def test(session: LookedInto) -> None:
        await be_late(session)
        await be_late(session)
        session.answer("iopub", "complete_request")
        session.answer("shell", "complete_request", "a client's")
        session.answer("shell", "execute_request")
        assert session.live.looking
        session.answer("shell", "complete_request")
        assert not session.live.looking
        assert not cast("Any", session.hub)._subscribers

    on(test)


def test_the_kernel_s_end_ends_the_look() -> None:
    async def test(session: LookedInto) -> None:
        await be_late(session)
        session.hub.fail(SandboxFailed("gone"))
        assert not session.live.looking
        with pytest.raises(SandboxUnavailable):
            await session.complete(30)
        assert not session.live.looking

    on(test)


def test_python_code_that_comes_next_ends_the_look() -> None:
    async def test(session: LookedInto) -> None:
        await be_late(session)
        for runtime, looking in (("deno", True), ("python", False)):
            session.live.readmit(cast("Job", SimpleNamespace(taken_up=False, row=SimpleNamespace(runtime=runtime))))
            await session.live.next_job()
            assert session.live.looking == looking

    on(test)
