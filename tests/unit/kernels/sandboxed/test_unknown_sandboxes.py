"""A sandbox of which nothing is known is not taken for gone, however long that lasts."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from kernels.errors import SandboxFailed, SandboxGone
from kernels.sandbox import SandboxInfo, SandboxRuntime
from kernels.sandboxed import sandboxed_kernel
from kernels.sandboxed.kernel_events import SandboxLost
from kernels.sandboxed.kernel_limits import KernelLimits
from kernels.sandboxed.sandboxed_kernel import SandboxedKernel


class Runtime:
    """It does not know for a while; then it does."""

    def __init__(self) -> None:
        self.unknown = 20

    async def dial(self, _sandbox_id: str, _name: str) -> None:
        raise SandboxGone("nobody is asked")

    async def running(self, _sandbox_id: str) -> bool:
        if self.unknown:
            self.unknown -= 1
            raise SandboxFailed("the API server did not answer")
        return False

    async def usage(self, _sandbox_id: str) -> None:
        raise SandboxGone("nobody says what it uses")


class Silent:
    async def watch(self, *_arguments: Any, **_more: Any) -> None:
        """There is nobody to follow."""


def test_silence_counts_only_while_the_runtime_says_that_the_sandbox_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandboxed_kernel, "_SILENCE_PAUSE_SECONDS", 0)

    async def run() -> None:
        runtime, events = Runtime(), list[Any]()
        made = SandboxedKernel(
            cast("SandboxRuntime", runtime), SandboxInfo("s", "/nowhere"), KernelLimits(), events.append
        )
        cast("Any", made).guest = Silent()
        await made._watch()
        assert runtime.unknown == 0
        assert [type(each) for each in events] == [SandboxLost]

    asyncio.run(run())
