"""`python -m benchmarks.execution_client KIND ADDRESS TOKEN ID`: one client process, which has one kernel run `pass`.

It says `ready` once it has run a few, and then for each line `seconds` on its standard input how many it ran in that
time, one after the other. As little work as can be: clients share the processors with what is measured.
"""

from __future__ import annotations

import asyncio
import json
import socket
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

from benchmarks.attach_client import Client, Server
from benchmarks.raw_kernel import RawKernel

WARM_UP = 20
HEAD_END = b"\r\n\r\n"


class PlainRest:
    """One kept-alive connection to the service, which sends the same bytes each time."""

    def __init__(self, address: str, token: str, session: str) -> None:
        place = urlsplit(address)
        self._socket = socket.create_connection((place.hostname, place.port), timeout=120)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        body = json.dumps({"code": "pass"}).encode()
        head = [f"POST /v1/sessions/{session}/executions HTTP/1.1", f"Host: {place.netloc}"]
        head += [f"Authorization: Bearer {token}", "Content-Type: application/json", f"Content-Length: {len(body)}"]
        self._request = "\r\n".join([*head, "", ""]).encode() + body

    def execute(self) -> None:
        self._socket.sendall(self._request)
        answer = b""
        while HEAD_END not in answer:
            answer += self._receive()
        head, _, body = answer.partition(HEAD_END)
        size = next(int(row[15:]) for row in head.split(b"\r\n") if row[:15].lower() == b"content-length:")
        while len(body) < size:
            body += self._receive()
        assert head.startswith(b"HTTP/1.1 200"), answer
        assert b'"status":"ok"' in body, body

    def _receive(self) -> bytes:
        received = self._socket.recv(65536)
        assert received, "the service closed the connection"
        return received


class Attached:
    """One WebSocket to a server that speaks the Jupyter protocol."""

    def __init__(self, address: str, token: str, kernel: str) -> None:
        self._runner = asyncio.Runner()
        self._client = self._runner.run(Client.attach(Server(address, token, 0), kernel, "v1"))

    def execute(self) -> None:
        self._runner.run(self._execute())

    async def _execute(self) -> None:
        await self._client.until_idle(await self._client.send("pass"))


def open_client(kind: str, address: str, token: str, name: str, *, stack: ExitStack) -> Callable[[], None]:
    """What runs `pass` once and waits for its end; of a raw client the name is the path of a connection file."""
    if kind == "raw":
        kernel = stack.enter_context(RawKernel(Path(name)))
        kernel.wait_subscribed()
        return partial(kernel.execute, "pass")
    return PlainRest(address, token, name).execute if kind == "rest" else Attached(address, token, name).execute


def main() -> None:
    with ExitStack() as stack:
        kind, address, token, name = sys.argv[1:]
        execute = open_client(kind, address, token, name, stack=stack)
        for _ in range(WARM_UP):
            execute()
        print("ready", flush=True)
        for line in sys.stdin:
            count, until = 0, time.monotonic() + float(line)
            while time.monotonic() < until:
                execute()
                count += 1
            print(count, flush=True)


if __name__ == "__main__":
    main()
