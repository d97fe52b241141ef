"""A Jupyter server as a child process, asked over its own REST interface."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

from tornado.httpclient import AsyncHTTPClient, HTTPRequest, HTTPResponse

LAB_TOKEN = "token-of-the-lab"
SECONDS = 120


class Lab:
    """`async with` it: a Jupyter server with these variables, running while in the block."""

    def __init__(self, home: Path, variables: dict[str, str], *more: str) -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        flags = [f"--ServerApp.port={self.port}", "--ServerApp.port_retries=0", "--ServerApp.open_browser=False"]
        flags += [f"--IdentityProvider.token={LAB_TOKEN}", f"--ServerApp.root_dir={home}", "--allow-root"]
        self.log = (home / "lab.log").open("w+")
        self.process = subprocess.Popen(
            [sys.executable, "-m", "jupyter_server", *flags, *more],
            env={**os.environ, "HOME": str(home), **variables},
            stdout=self.log,
            stderr=self.log,
        )

    async def ask(self, method: str, path: str, body: object = None) -> HTTPResponse:
        content = None if body is None else json.dumps(body)
        request = HTTPRequest(self.url + path, method=method, body=content, allow_nonstandard_methods=True)
        request.headers["Authorization"] = f"token {LAB_TOKEN}"
        request.request_timeout = SECONDS
        return await AsyncHTTPClient().fetch(request, raise_error=False)

    async def __aenter__(self) -> Lab:
        for _ in range(SECONDS * 10):
            with contextlib.suppress(OSError):
                if (await self.ask("GET", "/api/status")).code == 200:
                    return self
            await asyncio.sleep(0.1)
        self.process.kill()
        raise TimeoutError(self.said())

    async def __aexit__(self, kind: type[BaseException] | None, *details: object) -> None:
        if kind is not None:
            print(self.said(), file=sys.stderr)
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self.log.close()

    async def stop(self) -> bool:
        """SIGTERM; whether it ended by itself."""
        self.process.send_signal(signal.SIGTERM)
        try:
            await asyncio.to_thread(self.process.wait, 30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            return False
        return True

    def said(self) -> str:
        self.log.seek(0)
        return self.log.read()[-4000:]
