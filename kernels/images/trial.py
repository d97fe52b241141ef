"""A first sandbox of an image: whether its kernel runs code, and its own packages compiled.

Python can be compiled only by the version that is to run it, so the image's own does that, in a sandbox without a
network. What it made is taken over as a layer of this image and of no other.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import uuid
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Final

from kernels.environment import Environment
from kernels.errors import EnvironmentBuildFailed, KernelsError
from kernels.images.kernel_packages import PLACE
from kernels.runtimes import open_runtime
from kernels.sandbox import RuntimeSettings, SandboxSpec
from kernels.sandboxed.kernel_events import ignore_events
from kernels.sandboxed.kernel_limits import KernelLimits
from kernels.sandboxed.sandboxed_kernel import SandboxedKernel, open_kernel

_START_SECONDS: Final = 600.0
"""Nothing is compiled yet, and the machine may be busy."""
_COMPILE_SECONDS: Final = 900.0
_MOST_COMPILED_BYTES: Final = 256 << 20
_COMPILED: Final = "compiled.tar"
_COMPILE: Final = f"""
import compileall, os, sys, tarfile
sys.pycache_prefix = prefix = "/workspace/compiled"
compileall.compile_dir("/{PLACE}", quiet=2)
with tarfile.open("/workspace/{_COMPILED}", "w") as layer:
    for place, _, names in os.walk(prefix):
        for name in names:
            path = os.path.join(place, name)
            layer.add(path, os.path.join(os.path.relpath(place, prefix), "__pycache__", name))
"""


def try_image(environment: Environment, settings: RuntimeSettings, compiled: Path) -> None:
    """Start the image's kernel, and write the layer of compiled packages to `compiled`.

    Raises `EnvironmentBuildFailed` with what the kernel said when it does not live. Sandboxes lie in the settings'
    directory, which is this function's alone.
    """
    settings.data_directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    with _take_turn(settings.data_directory / "lock"):
        try:
            asyncio.run(_try(environment, settings, compiled))
        except KernelsError as error:
            raise EnvironmentBuildFailed(f"the image was tried in a sandbox, which failed: {error}") from None


@contextlib.contextmanager
def _take_turn(lock: Path) -> Iterator[None]:
    with lock.open("a") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        yield


async def _try(environment: Environment, settings: RuntimeSettings, compiled: Path) -> None:
    async with _sandbox(environment, settings) as kernel:
        outcome = await kernel.execute(_COMPILE, timeout_seconds=_COMPILE_SECONDS, emit=lambda _event: None)
        if outcome.status != "ok":
            said = outcome.error.value if outcome.error else outcome.death.detail if outcome.death else outcome.status
            raise EnvironmentBuildFailed(f"the image's kernel cannot compile its packages: {said[:500]}")
        with compiled.open("wb") as file:
            async for piece in kernel.guest.read_file(_COMPILED, max_bytes=_MOST_COMPILED_BYTES):
                file.write(piece)


@contextlib.asynccontextmanager
async def _sandbox(environment: Environment, settings: RuntimeSettings) -> AsyncIterator[SandboxedKernel]:
    runtime, sandbox_id = open_runtime(settings), str(uuid.uuid4())
    limits = KernelLimits(start_seconds=_START_SECONDS)
    try:
        for info in await runtime.list():  # of a process that was killed
            await runtime.destroy(info.sandbox_id)
        try:
            made = await runtime.create(SandboxSpec(sandbox_id, environment))
            kernel = await open_kernel(runtime, made, limits, ignore_events)
            try:
                yield kernel
            finally:
                await kernel.aclose()
        finally:
            await runtime.destroy(sandbox_id)
    finally:
        await runtime.aclose()
