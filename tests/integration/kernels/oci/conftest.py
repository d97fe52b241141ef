"""A real runtime with directories of its own, and sandboxes made on it."""

from __future__ import annotations

import uuid
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

from kernels.environment import Environment
from kernels.guest_client.client import CommandResult, GuestClient
from kernels.oci.runtime import OciRuntime
from kernels.sandbox import RuntimeSettings, SandboxInfo, SandboxSpec
from tests.shared_guest import share_guest


@pytest.fixture
def settings(runtime_name: str, tmp_path: Path, short_directory: Path) -> RuntimeSettings:
    return RuntimeSettings(runtime_name, share_guest(tmp_path / "data", short_directory), short_directory)


@dataclass
class Sandboxes:
    """Makes sandboxes on one runtime and runs commands in them."""

    runtime: OciRuntime
    environment: Environment

    async def create(self, environment: Environment | None = None) -> SandboxInfo:
        return await self.runtime.create(SandboxSpec(str(uuid.uuid4()), environment or self.environment))

    async def run(
        self, info: SandboxInfo, command: str, timeout_seconds: float = 120, ready_seconds: float = 120
    ) -> CommandResult:
        guest = GuestClient(partial(self.runtime.dial, info.sandbox_id))
        try:
            await guest.wait_ready(ready_seconds)
            return await guest.run_command(command, timeout_seconds=timeout_seconds, output_bytes=100_000)
        finally:
            await guest.aclose()

    async def python(self, info: SandboxInfo, code: str, timeout_seconds: float = 120) -> str:
        """What a program run as the user prints, errors included."""
        result = await self.run(info, f"python3 - <<'END' 2>&1\n{code}\nEND", timeout_seconds)
        return result.stdout.strip()


Test = Callable[[Sandboxes], Awaitable[None]]


@pytest.fixture
def in_sandboxes(settings: RuntimeSettings, environment: Environment) -> Iterator[Callable[[Test], None]]:
    """Runs a coroutine function with sandboxes; whatever it made is destroyed."""
    import asyncio

    async def run(test: Test) -> None:
        runtime = OciRuntime(settings)
        try:
            await test(Sandboxes(runtime, environment))
        finally:
            for info in await runtime.list():
                await runtime.destroy(info.sandbox_id)
            await runtime.aclose()

    return lambda test: asyncio.run(run(test))
