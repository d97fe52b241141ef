"""A sandbox's side of an execution role without a sandbox: a loopback port in front of a real signing proxy.

What the guest does inside (take TCP, pump it to the host's Unix socket) is done here, and every byte that would enter
the sandbox is kept, so that a test can look for keys in it.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
from collections.abc import Coroutine
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import boto3
from botocore.config import Config

from kernel_gateway.egress.budget import EgressLimits
from kernel_gateway.egress.decision import Decision, Party
from kernel_gateway.egress.policy import OperatorRules
from kernel_gateway.egress.s3.headers import PLACEHOLDER_KEY_ID
from kernel_gateway.egress.s3.proxy import SigningBackends
from kernel_gateway.egress.session_egress import SessionEgress
from kernels.environment import ExecutionRole, NetworkPolicy

T = TypeVar("T")
INSIDE = boto3.session.Session()
PLACEHOLDERS = {
    "AWS_ACCESS_KEY_ID": PLACEHOLDER_KEY_ID,
    "AWS_SECRET_ACCESS_KEY": "placeholder-the-host-signs",
    "AWS_REGION": "us-east-1",
    "AWS_DEFAULT_REGION": "us-east-1",
    "AWS_EC2_METADATA_DISABLED": "true",
}


@dataclass
class RoleSide:
    """Use as a context manager; `port` is where the sandbox's programs would find S3."""

    role: ExecutionRole
    directory: Path
    limits: EgressLimits = field(default_factory=EgressLimits)
    decisions: list[Decision] = field(default_factory=list)
    entered: bytearray = field(default_factory=bytearray)
    port: int = 0

    def __enter__(self) -> RoleSide:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._signer = SigningBackends()
        self._pumps: set[asyncio.Task[Any]] = set()
        try:
            self._call(self._open())
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._call(self._close())
        self._stop()

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def egress(self) -> SessionEgress:
        return self._egress

    def close_egress(self) -> None:
        """End the session's way out; the port in front of it stays."""
        self._call(self._egress.aclose())

    def client(self, **config: Any) -> Any:
        """boto3 as it is inside: placeholder keys, the loopback endpoint, everything else as it comes."""
        return INSIDE.client(
            "s3",
            endpoint_url=self.endpoint,
            region_name="us-east-1",
            aws_access_key_id=PLACEHOLDERS["AWS_ACCESS_KEY_ID"],
            aws_secret_access_key=PLACEHOLDERS["AWS_SECRET_ACCESS_KEY"],
            config=Config(**{"retries": {"total_max_attempts": 1}, **config}),
        )

    def connect(self, seconds: float = 10) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), seconds)

    def say(self, request: bytes, seconds: float = 10) -> bytes:
        """Send raw bytes; everything that comes back until the connection ends."""
        found = bytearray()
        with self.connect(seconds) as connection:
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                connection.sendall(request)
                connection.shutdown(socket.SHUT_WR)
            with contextlib.suppress(ConnectionResetError):
                while piece := connection.recv(65536):
                    found += piece
        return bytes(found)

    def _call(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(120)

    async def _open(self) -> None:
        path = str(self.directory / "s3.sock")
        listener = socket.socket(socket.AF_UNIX)
        listener.setblocking(False)
        listener.bind(path)
        listener.listen(64)
        self._egress = await SessionEgress.open(
            Party("session", "principal"),
            NetworkPolicy(),
            self.role,
            {"s3": listener},
            limits=self.limits,
            operator=OperatorRules(),
            record=self.decisions.append,
            signer=self._signer,
        )
        self._server = await asyncio.start_server(lambda r, w: self._pump(path, r, w), "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]

    async def _close(self) -> None:
        await self._egress.aclose()
        self._server.close()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    def _stop(self) -> None:
        self._signer.close()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(120)
        self._loop.close()
        (self.directory / "s3.sock").unlink(missing_ok=True)

    async def _pump(self, path: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._pumps.add(task)  # the loop itself only holds tasks weakly
        task.add_done_callback(self._pumps.discard)
        try:
            inner_reader, inner_writer = await asyncio.open_unix_connection(path)
        except OSError:
            writer.transport.abort()
            return
        try:
            async with asyncio.TaskGroup() as both:
                both.create_task(_copy(reader, inner_writer))
                both.create_task(_copy(inner_reader, writer, self.entered))
        except asyncio.CancelledError:  # the end of the test
            pass
        finally:
            inner_writer.transport.abort()
            writer.transport.abort()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, kept: bytearray | None = None) -> None:
    with contextlib.suppress(OSError):
        while piece := await reader.read(65536):
            if kept is not None and len(kept) < 50_000_000:
                kept += piece
            writer.write(piece)
            await writer.drain()
        if writer.can_write_eof():
            writer.write_eof()
