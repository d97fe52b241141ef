"""A session's way out on Unix sockets of the test's own, and servers on loopback that an operator declared."""

from __future__ import annotations

import asyncio
import dataclasses
import socket
import uuid
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from kernel_gateway.egress.budget import EgressLimits
from kernel_gateway.egress.decision import Decision, Party
from kernel_gateway.egress.policy import OperatorRules
from kernel_gateway.egress.session_egress import SessionEgress
from kernels.environment import Endpoint, NetworkMode, NetworkPolicy

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
PARTY = Party("session", "principal")
LIMITS = EgressLimits(header_seconds=60, connect_seconds=60, idle_seconds=60)
"""Longer than a busy machine holds a test up: one that is about a deadline has a short one for that part alone."""


@dataclass
class Way:
    """What a test has: the ways out it opened, what they recorded, and which addresses names have."""

    directory: Path
    stack: AsyncExitStack
    names: dict[str, list[list[str]]] = field(default_factory=dict)
    """By name: the answers in turn; the last one stays."""
    asked: list[str] = field(default_factory=list)
    decisions: list[Decision] = field(default_factory=list)
    declared: list[Endpoint] = field(default_factory=list)
    socket: Path = Path()

    async def serve(self, serve: Serve, *, declare: bool = True) -> int:
        """A server on loopback, declared by the operator unless said otherwise; its port."""
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        await self.stack.enter_async_context(server)
        port = int(server.sockets[0].getsockname()[1])
        if declare:
            self.declared.append(Endpoint("127.0.0.1", port))
        return port

    async def open(
        self, mode: NetworkMode = NetworkMode.PUBLIC, *allow: Endpoint, limits: EgressLimits = LIMITS, **changed: float
    ) -> SessionEgress:
        """Open the way out; servers must be there already."""
        self.socket = self.directory / f"{uuid.uuid4().hex[:8]}.sock"
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(str(self.socket))
        listener.listen(100)
        listener.settimeout(0)
        egress = await SessionEgress.open(
            PARTY,
            NetworkPolicy(mode, allow),
            None,
            {"http": listener},
            limits=dataclasses.replace(limits, **changed),  # type: ignore[arg-type]
            operator=OperatorRules(tuple(self.declared)),
            resolve=self.resolve,
            record=self.decisions.append,
        )
        self.stack.push_async_callback(egress.aclose)
        return egress

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader, writer = await asyncio.open_unix_connection(self.socket)
        self.stack.callback(writer.close)
        return reader, writer

    async def ask(self, request: bytes, *, end: bool = False) -> bytes:
        """Send a request and read all of the answer."""
        reader, writer = await self.connect()
        writer.write(request)
        if end:
            writer.write_eof()
        async with asyncio.timeout(120):
            answer = await reader.read()
        writer.close()
        return answer

    async def get(self, url: str, *headers: str) -> bytes:
        """The answer to a plain HTTP request."""
        host = url.removeprefix("http://").partition("/")[0].partition("?")[0]
        lines = [f"GET {url} HTTP/1.1", f"Host: {host}", *headers]
        return await self.ask(("\r\n".join(lines) + "\r\n\r\n").encode())

    async def tunnel(self, authority: str) -> bytes:
        """The head of the answer to a CONNECT."""
        reader, writer = await self.connect()
        writer.write(f"CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\n\r\n".encode())
        async with asyncio.timeout(120):
            head = await reader.readuntil(b"\r\n\r\n")
        writer.close()
        return head

    async def resolve(self, host: str, port: int) -> list[str]:
        """The name server: what the test says, one answer after another."""
        self.asked.append(host)
        answers = self.names.get(host.removesuffix("."))
        if not answers:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return answers.pop(0) if len(answers) > 1 else answers[0]

    def words(self) -> list[str]:
        """The stable words of what was decided, ends of transfers aside."""
        return [one.reason.partition(":")[0] for one in self.decisions if not one.ended]


Test = Callable[[Way], Awaitable[None]]


@pytest.fixture
def with_way(short_directory: Path) -> Callable[[Test], None]:
    """Runs a coroutine function with a way out."""

    async def run(test: Test) -> None:
        async with AsyncExitStack() as stack:
            await test(Way(short_directory, stack))

    return lambda test: asyncio.run(run(test))


def answering(answer: bytes, seen: list[bytes] | None = None) -> Serve:
    """A server that reads a request's head, says `answer` and ends."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        if seen is not None:
            seen.append(head)
        writer.write(answer)
        await writer.drain()
        writer.close()

    return serve


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """A server that says everything back, and ends when it does."""
    while piece := await reader.read(65536):
        writer.write(piece)
        await writer.drain()
    writer.close()


OK = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"
