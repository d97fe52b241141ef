"""A real kernel as a process of this host, on ipc sockets in a directory of its own, and a way to run code on it."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

from kernels.execution.execution import Event, Outcome, execute
from kernels.execution.hub import Hub
from kernels.execution.outputs import OutputCaps
from kernels.oci.sockets import dial_in
from kernels.wire.connection import KernelConnection

LAUNCHER = Path(__file__).parents[4] / "kernels" / "guest" / "in_kernel" / "kernel_main.py"
PORTS = {"shell_port": 1, "iopub_port": 2, "stdin_port": 3, "control_port": 4, "hb_port": 5}


class RunningKernel:
    """The process, where it listens, and what it wrote to its own stderr."""

    def __init__(self, command: Sequence[str] = (str(LAUNCHER),)) -> None:
        self.directory = tempfile.mkdtemp(prefix="sck", dir="/tmp")
        key = os.urandom(16).hex()
        Path(self.directory, "kernel").mkdir()
        self.connection = KernelConnection(dial_in(self.directory), 1, key.encode())
        content = {"transport": "ipc", "ip": f"{self.directory}/kernel/g1", **PORTS, "key": key}
        file = Path(self.directory, "g1.json")
        file.write_text(json.dumps({**content, "signature_scheme": "hmac-sha256", "kernel_name": "python3"}))
        home = Path(self.directory, "home")
        home.mkdir()
        self.last_words = Path(self.directory, "stderr")
        environment = {"HOME": str(home), "PATH": os.environ["PATH"], "LANG": "C.UTF-8"}
        with self.last_words.open("wb") as words:
            self.process = subprocess.Popen(
                [sys.executable, *command, "-f", str(file)],
                env=environment,
                cwd=home,
                stdin=subprocess.DEVNULL,
                stdout=words,
                stderr=words,
                start_new_session=True,
            )

    async def interrupt(self) -> None:
        self.process.send_signal(signal.SIGINT)

    def stop(self) -> None:
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(120)
        shutil.rmtree(self.directory)


class Runner:
    """A hub on a running kernel, with the events of everything that ran on it."""

    def __init__(self, kernel: RunningKernel, hub: Hub) -> None:
        self.kernel = kernel
        self.hub = hub
        self.events: list[Event] = []

    async def run(
        self,
        code: str,
        *,
        timeout: float = 120,
        grace: float = 5,
        caps: OutputCaps | None = None,
        interrupt: Callable[[], Awaitable[None]] | None = None,
        emit: Callable[[Event], None] | None = None,
        execution_id: str = "",
    ) -> Outcome:
        return await execute(
            self.hub,
            code,
            timeout_seconds=timeout,
            interrupt_grace_seconds=grace,
            caps=caps or OutputCaps(),
            interrupt=interrupt or self.kernel.interrupt,
            emit=emit or self.events.append,
            execution_id=execution_id,
        )


async def with_hub(kernel: RunningKernel, scenario: Callable[[Runner], Awaitable[Any]]) -> Any:
    """Open a hub on the kernel, do what the scenario does, close it whatever happened."""
    hub = Hub(kernel.connection)
    try:
        await hub.open(120)
        return await scenario(Runner(kernel, hub))
    finally:
        await hub.aclose()
