"""A live sandbox on each runtime."""

from __future__ import annotations

import asyncio
import uuid
from pathlib import Path

import pytest

from kernels.environment import Environment
from kernels.oci.runtime import OciRuntime
from kernels.sandbox import RuntimeSettings, SandboxSpec
from kernels.sandboxed.kernel_events import KernelEvent
from kernels.sandboxed.kernel_launcher import KernelLauncher
from kernels.sandboxed.kernel_limits import KernelLimits
from tests.integration.kernels.sandboxed.stage import GRACE_SECONDS, OnStage, Stage, Test, nothing
from tests.shared_guest import share_guest


@pytest.fixture
def on_stage(runtime_name: str, tmp_path: Path, short_directory: Path, environment: Environment) -> OnStage:
    """Runs a coroutine function with a live sandbox, which is destroyed afterwards."""

    async def run(test: Test) -> None:
        runtime = OciRuntime(
            RuntimeSettings(runtime_name, share_guest(tmp_path / "data", short_directory), short_directory)
        )
        launcher = KernelLauncher(runtime, KernelLimits(interrupt_grace_seconds=GRACE_SECONDS))
        try:
            spec = SandboxSpec(str(uuid.uuid4()), environment)
            happened: list[KernelEvent] = []
            kernel = await launcher.launch(spec, before_first_code=nothing, on_event=happened.append)
            stage = Stage(launcher, kernel, happened)
            try:
                await test(stage)
            finally:
                await stage.kernel.destroy()
            assert await runtime.list() == ()
        finally:
            await runtime.aclose()

    return lambda test: asyncio.run(run(test))
