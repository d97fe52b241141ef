"""One sandbox kept for one caller: made, its kernel started again on request, reported on, removed.

Nothing outlives its caller for long. A keeper removes its sandbox on request, when its caller closes the pipe or dies,
and when it is asked to end; one that was killed itself leaves a lock that no process holds, and the next keeper of the
same directory removes what belonged to it.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import shutil
import signal
import socket
import uuid
from collections.abc import Callable
from pathlib import Path

from kernels.cancelling import cancel_all
from kernels.environment import Environment, Resources
from kernels.errors import KernelsError, SandboxFailed, UnknownEnvironment
from kernels.guest_client.client import GuestClient, KernelExit, KernelStarted
from kernels.keeper import locks
from kernels.keeper.bridge import Bridge
from kernels.keeper.wire import LaunchRequest, Report, Request
from kernels.oci import environments
from kernels.oci.places import HostPlaces
from kernels.runtimes import open_runtime
from kernels.sandbox import RuntimeSettings, SandboxSpec

START_SECONDS = 60.0
_DESTROY_TRIES = 5
_DESTROY_PAUSE_SECONDS = 1.0


class SandboxProcess:
    """The sandbox of one order. `tell` hears what becomes of it; `gone` is set when there is nothing left to keep."""

    def __init__(self, order: LaunchRequest, tell: Callable[[Report], None]) -> None:
        self.gone = asyncio.Event()
        self._order = order
        self._tell = tell
        self._id = str(uuid.uuid4())
        settings = _settings(order)
        self._runtime = open_runtime(settings)
        self._bridges = HostPlaces(settings).run / "bridges"
        self._locks = locks.Locks(Path(order.data_directory) / "locks")
        self._bridge = Bridge(self._bridges / self._id, self._dial)
        self._guest = GuestClient(self._dial)
        self._key = ""
        self._watching: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Remove what killed keepers left, make the sandbox, tell of its kernel. Raises `KernelsError`, `OSError`."""
        environment = _find_environment(self._order)
        self._locks.hold(self._id)
        async with self._locks.turn():
            await self._sweep()
            await self._runtime.create(SandboxSpec(self._id, environment))
        started = await self._guest.wait_ready(START_SECONDS)
        self._watching = asyncio.create_task(self._watch())
        await self._introduce(started)

    async def do(self, request: Request) -> None:
        """Carry out what the caller asks for, but `end`; what cannot be done is reported or, for a signal, left."""
        if request.do == "start":
            try:
                await self._introduce(await self._guest.start_kernel(self._bridge.generation + 1, key=self._key))
            except KernelsError as error:
                self._tell(Report("failed", detail=str(error)))
            return
        with contextlib.suppress(KernelsError):  # no kernel runs, or the guest is late or gone: that is reported
            await (self._guest.interrupt_kernel() if request.do == "interrupt" else self._guest.kill_kernel())

    async def remove(self) -> None:
        """Take everything back; what cannot be removed now, the next keeper of this directory removes."""
        if self._watching is not None:
            await cancel_all([self._watching])
        await self._guest.aclose()
        await self._bridge.close()
        async with self._locks.turn():
            for _ in range(_DESTROY_TRIES):
                with contextlib.suppress(SandboxFailed):
                    await self._forget(self._id)
                    break
                await asyncio.sleep(_DESTROY_PAUSE_SECONDS)
            with contextlib.suppress(OSError):
                self._bridges.rmdir()
            await self._runtime.aclose()

    async def _introduce(self, started: KernelStarted) -> None:
        """Listen for the clients of a kernel that has been started, and tell the caller where."""
        self._key = started.key
        self._bridges.mkdir(mode=0o700, parents=True, exist_ok=True)
        await self._bridge.open(started.generation)
        self._tell(Report("started", started.generation, sockets=self._bridge.sockets, key=started.key))

    async def _sweep(self) -> None:
        """Remove the sandboxes of keepers that are no more."""
        known = {info.sandbox_id for info in await self._runtime.list()}
        known.update(path.name for path in self._bridges.glob("*-*-*-*-*"))
        for sandbox_id in known | self._locks.names():
            if self._locks.take_over(sandbox_id):
                with contextlib.suppress(SandboxFailed):  # the next one tries again
                    await self._forget(sandbox_id)

    async def _forget(self, sandbox_id: str) -> None:
        await self._runtime.destroy(sandbox_id)
        shutil.rmtree(self._bridges / sandbox_id, ignore_errors=True)
        self._locks.release(sandbox_id)

    async def _watch(self) -> None:
        """Tell each end of a kernel; a guest that cannot be followed any more has taken the kernel with it."""
        await self._guest.watch(lambda _started: None, self._report_exit, self.gone.set)

    def _report_exit(self, gone: KernelExit) -> None:
        status = -signal.Signals[gone.signal].value if gone.signal else gone.exit_code
        code = 1 if status is None else status
        self._tell(Report("exited", gone.generation, exit_code=code, detail=gone.last_words))

    async def _dial(self, name: str, *, patience_seconds: float = 0) -> socket.socket:
        return await self._runtime.dial(self._id, name, patience_seconds=patience_seconds)


def _settings(order: LaunchRequest) -> RuntimeSettings:
    return RuntimeSettings(
        runtime=order.runtime,
        data_directory=Path(order.data_directory),
        run_directory=Path(order.run_directory),
        cgroup_parent=order.cgroup_parent,
        uid_base=order.uid_base,
        uid_ranges=order.uid_ranges,
    )


def _find_environment(order: LaunchRequest) -> Environment:
    """The image that was asked for, with the bounds that were; its sandboxes reach nothing."""
    directory = Path(order.environments_directory)
    found = environments.find_installed(directory).get(order.environment)
    if found is None:
        raise UnknownEnvironment(
            f"the environment {order.environment!r} is not built in {directory};"
            f" build it: sandcell environments build {order.environment}"
        )
    return dataclasses.replace(found, resources=Resources(order.memory_mb, order.storage_mb, order.pids))
