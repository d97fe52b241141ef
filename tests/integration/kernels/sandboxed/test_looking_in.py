"""What a kernel tells of itself under gVisor: its variables while it sleeps, and what a cell used."""

from __future__ import annotations

import asyncio
import uuid
from pathlib import Path

from kernels.environment import Environment
from kernels.execution import variables
from kernels.oci.runtime import OciRuntime
from kernels.sandbox import RuntimeSettings, SandboxInfo, SandboxSpec
from kernels.sandboxed.kernel_launcher import KernelLauncher
from kernels.sandboxed.kernel_limits import KernelLimits
from kernels.sandboxed.sandboxed_kernel import SandboxedKernel
from tests.shared_guest import share_guest

HANGING = (
    "class Hanging(dict):\n    def __repr__(self): __import__('time').sleep(60)\n    __len__ = __repr__\n"
    "hanging = Hanging(a=1)\nimport time; time.sleep(60)"
)


async def nothing(_info: SandboxInfo) -> None:
    """No workspace to restore."""


async def look(kernel: SandboxedKernel) -> None:
    large = await kernel.execute("len(bytearray(b'1') * 100_000_000)", timeout_seconds=60, emit=lambda _event: None)
    assert large.usage is not None
    assert large.usage.memory_peak_bytes is not None
    assert large.usage.memory_peak_bytes > 100_000_000
    running = asyncio.create_task(kernel.execute(HANGING, timeout_seconds=300, emit=lambda _event: None))
    hub = kernel.hub
    assert hub is not None
    async with asyncio.timeout(120):
        while not (found := {each.name: each for each in (await variables.ask(hub)).variables}).get("hanging"):
            await asyncio.sleep(0.05)
    assert (found["hanging"].type, found["hanging"].length) == ("Hanging", 1)
    assert not running.done()
    await kernel.interrupt()
    assert (await running).status == "interrupted"


def test_variables_and_usage_under_gvisor(tmp_path: Path, short_directory: Path, environment: Environment) -> None:
    async def run() -> None:
        runtime = OciRuntime(RuntimeSettings("runsc", share_guest(tmp_path / "data", short_directory), short_directory))
        try:
            spec = SandboxSpec(str(uuid.uuid4()), environment)
            launcher = KernelLauncher(runtime, KernelLimits(start_seconds=120))
            kernel = await launcher.launch(spec, before_first_code=nothing)
            try:
                await look(kernel)
            finally:
                await kernel.destroy()
        finally:
            await runtime.aclose()

    asyncio.run(run())
