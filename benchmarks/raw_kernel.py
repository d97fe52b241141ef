"""A Jupyter kernel spoken to over plain ZMQ sockets: the least that any service could do."""

from __future__ import annotations

import json
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import zmq
from jupyter_client.session import Session

SHELL, IOPUB = 1, 2


class RawKernel:
    """Shell and iopub sockets to the kernel of a connection file; `directory` is where its ipc sockets lie."""

    def __init__(self, connection_file: Path) -> None:
        wait_for(connection_file)
        connection = json.loads(connection_file.read_text())
        self._session = Session(key=connection["key"].encode())
        self._context = zmq.Context()
        prefix = connection_file.parent / Path(connection["ip"]).name
        self._shell = self._connect(zmq.DEALER, Path(f"{prefix}-{SHELL}"))
        self._iopub = self._connect(zmq.SUB, Path(f"{prefix}-{IOPUB}"))
        self._iopub.setsockopt(zmq.SUBSCRIBE, b"")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._context.destroy(linger=0)

    def first_reply(self) -> None:
        """Ask for kernel_info and wait for the answer on shell."""
        self._session.send(self._shell, "kernel_info_request")
        assert self._shell.poll(60_000), "no kernel_info_reply"
        self._shell.recv_multipart()

    def wait_subscribed(self, deadline_seconds: float = 60) -> None:
        """Ask for kernel_info until what the kernel publishes arrives: a subscription takes its time."""
        give_up = time.monotonic() + deadline_seconds
        while not self._iopub.poll(20):
            assert time.monotonic() < give_up, "nothing is published"
            self.first_reply()

    def execute(self, code: str) -> None:
        """Run code; returns when its reply and its idle status have come."""
        sent = self._session.send(
            self._shell, "execute_request", {"code": code, "silent": False, "store_history": True}
        )
        assert self._shell.poll(60_000), "no execute_reply"
        self._shell.recv_multipart()
        while True:
            assert self._iopub.poll(60_000), "no idle status"
            _, parts = self._session.feed_identities(self._iopub.recv_multipart())
            message = self._session.deserialize(parts)
            ours = message["parent_header"].get("msg_id") == sent["header"]["msg_id"]
            if ours and message["content"].get("execution_state") == "idle":
                return

    def ask(self, kind: str, content: dict[str, Any]) -> dict[str, Any]:
        """Send a request on shell; the content of its reply."""
        self._session.send(self._shell, kind, content)
        assert self._shell.poll(60_000), f"no reply to {kind}"
        _, parts = self._session.feed_identities(self._shell.recv_multipart())
        found: dict[str, Any] = self._session.deserialize(parts)["content"]
        return found

    def _connect(self, kind: int, path: Path) -> zmq.Socket[bytes]:
        wait_for(path)
        socket = self._context.socket(kind)
        socket.setsockopt(zmq.RECONNECT_IVL, 2)
        socket.connect(f"ipc://{path}")
        return socket


def wait_for(path: Path, deadline_seconds: float = 60) -> None:
    give_up = time.monotonic() + deadline_seconds
    while not path.exists():
        assert time.monotonic() < give_up, f"{path} did not appear"
        time.sleep(0.002)
