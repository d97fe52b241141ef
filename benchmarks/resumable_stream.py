"""What the guest's stream adds to `pass`: the same kernel spoken to through it, straight, and through plain sockets.

The stream is one more process on the way, which numbers what the kernel says, keeps it until it is acknowledged, and
passes it on. A process that only passes bytes on (this module, as a program) tells the one from the other.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import random
import statistics
import sys
import tempfile
import time
import uuid
from collections.abc import AsyncIterator, Sequence
from functools import partial
from pathlib import Path
from typing import cast

from benchmarks.bounds import at_most
from kernels.execution.execution import execute
from kernels.execution.hub import Hub
from kernels.execution.outputs import OutputCaps
from kernels.oci.sockets import dial_in
from kernels.sandboxed.sandboxed_kernel import SandboxedKernel
from kernels.wire.connection import CHANNELS, KernelConnection

WARM_UP = 50
MOST_MS = 0.3
OPEN_SECONDS = 60.0
PAUSE_SECONDS = 0.005
"""Before each run: what the one before it has left to do is not to be this one's."""


async def compare(kernel: SandboxedKernel, sockets: Path, rounds: int) -> str:
    """The three ways in turn, on one kernel whose own `sockets` those are; each hears what the others publish, too."""
    through = kernel.hub
    assert through is not None
    connection = dataclasses.replace(through._connection, relay="")
    times: list[list[float]] = [[], [], []]
    async with _open(connection) as straight, _forwarded(connection, sockets) as forwarded, _open(forwarded) as plain:
        for number in range(rounds + WARM_UP):
            ways = list(zip((through, straight, plain), times, strict=True))
            for hub, taken in random.sample(ways, len(ways)):
                await asyncio.sleep(PAUSE_SECONDS)
                began = time.perf_counter()
                await _run_once(kernel, hub)
                if number >= WARM_UP:
                    taken.append((time.perf_counter() - began) * 1000)
    stream, none, bytes_alone = map(statistics.median, times)
    added = at_most("numbers, spool and acknowledgement add to that", stream - bytes_alone, MOST_MS)
    return (
        f"`pass` straight to the kernel {none:.2f} ms, through a process that only passes bytes on {bytes_alone:.2f},"
        f" through the guest's stream {stream:.2f} (p50 of {rounds}); {added}; in all {stream - none:.2f} ms"
    )


async def _run_once(kernel: SandboxedKernel, hub: Hub) -> None:
    execution_id = str(uuid.uuid4())
    outcome = await execute(
        hub,
        "pass",
        timeout_seconds=60,
        interrupt_grace_seconds=5,
        caps=OutputCaps(),
        interrupt=_nothing,
        emit=lambda _event: None,
        execution_id=execution_id,
    )
    assert outcome.status == "ok", outcome
    if outcome.stream:
        kernel.settle(outcome, execution_id)


async def _nothing() -> None:
    """No interrupt is due."""


@contextlib.asynccontextmanager
async def _open(connection: KernelConnection) -> AsyncIterator[Hub]:
    hub = Hub(connection)
    try:
        await hub.open(OPEN_SECONDS)
        yield hub
    finally:
        await hub.aclose()


@contextlib.asynccontextmanager
async def _forwarded(connection: KernelConnection, sockets: Path) -> AsyncIterator[KernelConnection]:
    """The kernel's sockets behind a process that passes bytes on."""
    with tempfile.TemporaryDirectory(prefix="scplain", dir="/tmp") as directory:
        place = Path(directory, "kernel")
        place.mkdir()
        names = [f"g{connection.generation}-{number}" for number in CHANNELS.values()]
        program = [sys.executable, "-m", "benchmarks.resumable_stream", str(sockets), str(place), *names]
        process = await asyncio.create_subprocess_exec(*program)
        try:
            yield dataclasses.replace(connection, dial=dial_in(directory))
        finally:
            process.kill()
            await process.wait()


class _Passing(asyncio.Protocol):
    """One end of a connection: what it gets goes to the other end."""

    other: _Passing | None = None
    transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        if self.other is not None:
            self.other.transport.write(data)

    def connection_lost(self, error: Exception | None) -> None:
        if self.other is not None:
            self.other.transport.close()


async def _pass_on(sockets: Path, place: Path, names: Sequence[str]) -> None:
    loop = asyncio.get_running_loop()

    async def join(near: _Passing, path: Path) -> None:
        _, far = await loop.create_unix_connection(_Passing, str(path))
        near.other, far.other = far, near
        near.transport.resume_reading()

    class Near(_Passing):
        """A client's end: it is read once the kernel's is there."""

        def __init__(self, path: Path) -> None:
            self._path = path

        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            super().connection_made(transport)
            self.transport.pause_reading()
            self._joining = loop.create_task(join(self, self._path))

    for name in names:
        await loop.create_unix_server(partial(Near, sockets / name), str(place / name))
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(_pass_on(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3:]))
