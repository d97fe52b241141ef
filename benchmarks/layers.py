"""What each layer costs a sandbox: the same start and the same `pass` with all layers, less one, or another runtime.

And what the stream adds to `pass` that has an execution outlive the service.
"""

from __future__ import annotations

import asyncio
import statistics
import tempfile
import time
import uuid
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks import resumable_stream
from kernels.environment import Environment
from kernels.oci import environments
from kernels.oci.runtime import OciRuntime
from kernels.sandbox import RuntimeSettings, SandboxInfo, SandboxSpec
from kernels.sandboxed.kernel_launcher import KernelLauncher
from kernels.sandboxed.kernel_limits import KernelLimits
from tests.running_service import RunningService

PASSES = 30
UID_BASE = 1_650_000_000
VARIANTS = (("runc", ""), ("runc", "seccomp"), ("runc", "user namespace"), ("crun", ""), ("runsc", ""))
"""A runtime, and the layer that is left out. The first is what the others are compared with."""


class Without(OciRuntime):
    """A runtime whose sandboxes lack one layer."""

    def __init__(self, settings: RuntimeSettings, layer: str) -> None:
        super().__init__(settings)
        self._layer = layer

    def _config(self, *arguments: Any) -> dict[str, Any]:
        config = super()._config(*arguments)
        linux = dict(config["linux"])
        if self._layer == "seccomp":
            del linux["seccomp"]
        if self._layer == "user namespace":
            linux["namespaces"] = [one for one in linux["namespaces"] if one["type"] != "user"]
            del linux["uidMappings"], linux["gidMappings"]
        return {**config, "linux": linux}


@dataclass
class Figures:
    starts: list[float] = field(default_factory=list)
    passes: list[float] = field(default_factory=list)


def run(_service: RunningService, environments_dir: Path, *, rounds: int = 8) -> str:
    environment = environments.find_installed(environments_dir)["python"]
    figures = asyncio.run(_measure(environment, rounds))
    (start, execution), *others = ((_median(one.starts), _median(one.passes)) for one in figures)
    said = [f"runc: start {start * 1000:.0f} ms, `pass` {execution * 1000:.1f} ms (p50 of {rounds})"]
    for (name, layer), (other_start, other_execution) in zip(VARIANTS[1:], others, strict=True):
        what = f"{name} without {layer}" if layer else name
        said.append(f"{what}: start {other_start / start:.2f}, `pass` {other_execution / execution:.2f} times that")
    return "; ".join([*said, asyncio.run(_measure_stream(environment, rounds))])


async def _measure(environment: Environment, rounds: int) -> list[Figures]:
    figures = [Figures() for _ in VARIANTS]
    with tempfile.TemporaryDirectory(prefix="scbench", dir="/tmp") as name:
        for _ in range(rounds):
            for number, (runtime, layer) in enumerate(VARIANTS):
                base = 0 if layer == "user namespace" else UID_BASE
                place = Path(name, str(number))
                settings = RuntimeSettings(runtime, place / "data", place / "run", uid_base=base, uid_ranges=1)
                await _once(Without(settings, layer), environment, figures[number])
    return figures


async def _measure_stream(environment: Environment, rounds: int) -> str:
    with tempfile.TemporaryDirectory(prefix="scbench", dir="/tmp") as name:
        place = Path(name)
        settings = RuntimeSettings("runc", place / "data", place / "run", uid_base=UID_BASE, uid_ranges=1)
        runtime = OciRuntime(settings)
        launcher = KernelLauncher(runtime, KernelLimits())
        kernel = await launcher.launch(SandboxSpec(str(uuid.uuid4()), environment), before_first_code=_nothing)
        try:
            [sockets] = (place / "run").glob(f"**/{kernel.info.sandbox_id}/kernel")
            return await resumable_stream.compare(kernel, sockets, rounds * PASSES)
        finally:
            await kernel.destroy()
            await runtime.aclose()


async def _once(runtime: OciRuntime, environment: Environment, figures: Figures) -> None:
    launcher = KernelLauncher(runtime, KernelLimits())
    started = time.perf_counter()
    kernel = await launcher.launch(SandboxSpec(str(uuid.uuid4()), environment), before_first_code=_nothing)
    try:
        await kernel.execute("1 + 1", timeout_seconds=60, emit=lambda _event: None)
        figures.starts.append(time.perf_counter() - started)
        for _ in range(PASSES):
            begun = time.perf_counter()
            await kernel.execute("pass", timeout_seconds=60, emit=lambda _event: None)
            figures.passes.append(time.perf_counter() - begun)
    finally:
        await kernel.destroy()
        await runtime.aclose()


async def _nothing(_info: SandboxInfo) -> None:
    """No workspace to restore."""


def _median(values: list[float]) -> float:
    return statistics.median(values)
