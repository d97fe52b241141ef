"""A live sandbox for code in other languages than Python, and what its owner was told."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from kernels.errors import Death
from kernels.execution.execution import Event, Outcome
from kernels.sandbox import SandboxInfo
from kernels.sandboxed.kernel_events import KernelEvent, SecondDied
from kernels.sandboxed.kernel_launcher import KernelLauncher
from kernels.sandboxed.sandboxed_kernel import SandboxedKernel

GRACE_SECONDS = 3.0


@dataclass
class Stage:
    """A live sandbox and what its owner was told."""

    launcher: KernelLauncher
    kernel: SandboxedKernel
    happened: list[KernelEvent] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)

    @property
    def deaths(self) -> list[Death]:
        """Of kernels for JavaScript that ended while nothing ran in them."""
        return [each.death for each in self.happened if isinstance(each, SecondDied)]

    async def js(self, code: str, timeout_seconds: float = 120, **how: Any) -> Outcome:
        how = {"language": "javascript", "runtime": "deno", **how}
        return await self.kernel.execute(code, timeout_seconds=timeout_seconds, emit=self.events.append, **how)

    async def value(self, code: str, **how: Any) -> str:
        outcome = await self.js(code, **how)
        assert outcome.status == "ok", outcome
        results = [each["data"] for each in outcome.outputs if each["output_type"] == "execute_result"]
        return str(results[0]["text/plain"])

    async def python(self, code: str) -> str:
        outcome = await self.kernel.execute(code, timeout_seconds=60, emit=lambda _event: None)
        assert outcome.status == "ok", outcome
        return str(outcome.outputs[-1]["data"]["text/plain"]) if outcome.outputs else ""

    async def shell(self, line: str) -> str:
        return (await self.kernel.guest.run_command(line, timeout_seconds=30, output_bytes=10_000)).stdout

    async def while_running(self, code: str, act: Callable[[], Awaitable[object]], **how: Any) -> Outcome:
        running = asyncio.create_task(self.js(f"console.log('begun');{code}", **how))
        seen = len(self.events)
        async with asyncio.timeout(120):
            while len(self.events) == seen:
                await asyncio.sleep(0.02)
        await act()
        return await running


Test = Callable[[Stage], Awaitable[None]]
OnStage = Callable[[Test], None]


async def nothing(_info: SandboxInfo) -> None:
    """No workspace to restore."""
