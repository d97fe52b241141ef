"""A kernel on this host, outside any sandbox, for benchmarks of what lies between the service and a kernel."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from kernels.oci.sockets import dial_in
from kernels.wire.connection import KernelConnection

LAUNCHER = str(Path(__file__).parent.parent / "kernels" / "guest" / "in_kernel" / "kernel_main.py")


class HostKernel:
    """A context manager: the kernel runs while it is open, on ipc sockets in `directory`."""

    def __init__(self, directory: str, command: Sequence[str] = (LAUNCHER,)) -> None:
        key = os.urandom(16).hex()
        self.connection = KernelConnection(dial_in(directory), 1, key.encode())
        Path(directory, "kernel").mkdir()
        ports = {f"{name}_port": port for port, name in enumerate(("shell", "iopub", "stdin", "control", "hb"), 1)}
        content = {
            "transport": "ipc",
            "ip": f"{directory}/kernel/g1",
            "key": key,
            "signature_scheme": "hmac-sha256",
            **ports,
        }
        self._file = Path(directory, "g1.json")
        self._file.write_text(json.dumps(content))
        self._command = [sys.executable, *command, "-f", str(self._file)]

    def __enter__(self) -> HostKernel:
        environment = {"HOME": str(self._file.parent), "PATH": os.environ["PATH"], "LANG": "C.UTF-8"}
        self._process = subprocess.Popen(
            self._command,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        return self

    def __exit__(self, *_: object) -> None:
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait(10)

    @property
    def pid(self) -> int:
        return self._process.pid

    async def interrupt(self) -> None:
        """Raise KeyboardInterrupt in what runs."""
        self._process.send_signal(signal.SIGINT)
