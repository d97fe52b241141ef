"""A jupyter-kernel-gateway to measure against, in an environment of its own: it shares our import name.

Its limits on what a kernel may publish are off: they would drop what is counted.
"""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

import httpx

from tests.conformance.jupyter import client_environments
from tests.doubles.server_process import free_port

TOKEN = "token-of-the-peer"
START_SECONDS = 60
LIMITS_OFF = (
    "--ZMQChannelsWebsocketConnection.limit_rate=False",
    "--ZMQChannelsWebsocketConnection.iopub_msg_rate_limit=0",
    "--ZMQChannelsWebsocketConnection.iopub_data_rate_limit=0",
)


class KernelGateway:
    """`with` it: a kernel gateway on this host, on a free port. `pid` is the process that carries messages."""

    token = TOKEN

    def __init__(self, data_dir: Path, home: Path) -> None:
        place = client_environments.installed("jupyter_kernel_gateway", data_dir) / "bin"
        port = free_port()
        self.url = f"http://127.0.0.1:{port}"
        flags = [f"--KernelGatewayApp.port={port}", f"--KernelGatewayApp.auth_token={TOKEN}", *LIMITS_OFF]
        variables = {**os.environ, "HOME": str(home), "PATH": f"{place}:{os.environ['PATH']}"}
        self._log = (home / "kernel-gateway.log").open("w")
        self._process = subprocess.Popen(
            [place / "jupyter-kernelgateway", *flags], env=variables, cwd=home, stdout=self._log, stderr=self._log
        )
        self.pid = self._process.pid

    def __enter__(self) -> KernelGateway:
        give_up = time.monotonic() + START_SECONDS
        while not self._answers():
            assert self._process.poll() is None, "jupyter-kernel-gateway has ended"
            assert time.monotonic() < give_up, "jupyter-kernel-gateway does not answer"
            time.sleep(0.1)
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        try:
            self._process.wait(30)
        finally:
            self._process.kill()
            self._process.wait()
            self._log.close()

    def _answers(self) -> bool:
        try:
            asked = {"Authorization": f"token {TOKEN}"}
            return httpx.get(f"{self.url}/api/kernelspecs", headers=asked, trust_env=False).is_success
        except httpx.TransportError:
            return False
