"""A session's worker: a sandbox that stands still, and what is told of code beside its output."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from kernel_gateway.errors import SandboxUnavailable
from kernel_gateway.services.background import Background
from kernel_gateway.services.results.event_log import EventLog
from kernel_gateway.services.results.jobs import Job
from kernel_gateway.services.sessions.live_session import LiveSession
from kernel_gateway.services.sessions.worker import Worker
from kernel_gateway.settings import Settings
from kernel_gateway.storage.sessions import SessionRow
from kernels.errors import SandboxFailed
from kernels.execution.execution import Event, Outcome
from kernels.sandbox import SandboxRuntime
from kernels.sandboxed.residence import Residence
from tests.doubles.turned_clock import TurnedClock
from tests.unit.kernels.sandboxed.test_residence import SlowRuntime


class StoppedKernel:
    """A kernel whose sandbox stands still, and goes on at the second try."""

    def __init__(self) -> None:
        runtime = SlowRuntime(failures=1)
        runtime.move.set()
        self.residence = Residence(cast("SandboxRuntime", runtime), "s", lambda: None)

    async def ready(self) -> int:
        if self.residence.stopped:
            raise SandboxFailed("it stands still")
        return 1


def test_code_has_not_begun_while_its_sandbox_stands_still() -> None:
    async def run() -> None:
        kernel = StoppedKernel()
        row = SessionRow("s", "p", "w", "", "python", 1, 0.0, 0.0, 1e9, 10**9, 10**9, None, {})
        live, job = LiveSession(row, TurnedClock()), cast("Job", SimpleNamespace(taken_up=False))
        live.sandbox = cast("Any", SimpleNamespace(kernel=kernel, workspace_ready=True, live_generation=1))
        live.readmit(job)
        assert live.takes_at_once(job) == 1
        await kernel.residence.page_out()
        assert live.takes_at_once(job) is None

    asyncio.run(run())


def test_code_is_refused_before_it_begins_when_its_sandbox_cannot_go_on() -> None:
    """Begun, it would be recorded as died, and the sandbox destroyed that has only to be asked again."""

    async def run() -> None:
        kernel = StoppedKernel()
        assert (await kernel.residence.page_out()).moved_bytes

        async def there() -> StoppedKernel:
            return kernel

        worker: Any = object.__new__(Worker)
        worker._live = SimpleNamespace(sandbox=SimpleNamespace(ensure_started=there, ready=there, workspace_ready=True))
        with pytest.raises(SandboxUnavailable) as refused:
            await worker._ready(None)
        assert refused.value.retryable
        assert await worker._ready(None) is kernel

    asyncio.run(run())


def test_what_is_told_while_code_runs_comes_before_its_end() -> None:
    """Of code that was taken up, and ends while what its kernel said meanwhile is still on its way."""

    async def run() -> None:
        job = Job(
            cast("Any", SimpleNamespace(id="e", runtime="deno", language="javascript", code="", timeout_seconds=60.0)),
            EventLog(10_000),
        )
        caught_up = asyncio.Event()

        async def catch_up() -> None:
            await caught_up.wait()

        async def execute(code: str, *, emit: Callable[[Event], None], **_: object) -> Outcome:
            emit(Event("generation", {"runtime": "deno"}))
            asyncio.get_running_loop().call_later(0.05, caught_up.set)
            return Outcome("ok")

        async def ready() -> int:
            return 1

        async def conclude(*_: object) -> None:
            job.log.append("ended", {})

        job.catch_up = catch_up
        guard = SimpleNamespace(guard=lambda *_: contextlib.nullcontext())
        full_text = SimpleNamespace(take=lambda _: True)
        worker: Any = object.__new__(Worker)
        worker._settings, worker._background = Settings(), Background()
        worker._live = SimpleNamespace(id="s", memory=guard)
        worker._kept_outputs = SimpleNamespace(full_text=lambda _: full_text)
        worker._conclude, worker._keep_told = conclude, None
        await worker._execute(job, SimpleNamespace(ready=ready, execute=execute))
        job.log.close()
        assert [each.event async for each in job.log.follow(0)] == ["generation", "ended"]

    asyncio.run(run())
