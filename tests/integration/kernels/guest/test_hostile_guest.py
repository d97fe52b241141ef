"""The client against a guest that has fallen to its user: whatever it sends, it ends in a declared error, in time."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from kernels.errors import DeadlineExceeded, SandboxFailed, SandboxGone
from kernels.guest_client import client as guest_client
from kernels.guest_client.client import GuestClient
from kernels.oci.sockets import dial_in

Answer = Callable[[asyncio.StreamWriter], None]
HEAD = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


def whole(body: bytes, status: bytes = b"200 OK") -> bytes:
    return b"HTTP/1.1 %s\r\nContent-Length: %d\r\n\r\n%s" % (status, len(body), body)


async def against(first: bytes, again: bytes, call: Callable[[GuestClient], object]) -> None:
    """Run a call against a server that sends `first` once and then `again` for ever, or stays silent without it."""
    directory = Path(tempfile.mkdtemp(prefix="sg", dir="/tmp"))
    (directory / "guest").mkdir()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(first)
            while again:
                writer.write(again)
                await writer.drain()
            await reader.read()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    async with AsyncExitStack() as stack:
        stack.callback(shutil.rmtree, directory)
        server = await asyncio.start_unix_server(serve, directory / "guest/http.sock")
        stack.callback(server.close)
        client = GuestClient(dial_in(str(directory)))
        stack.push_async_callback(client.aclose)
        await call(client)  # type: ignore[misc]


@pytest.mark.parametrize(
    ("first", "again"),
    [
        (whole(b"nonsense"), b""),
        (whole(b"[1]"), b""),
        (whole(b"[" * 100_000), b""),
        (whole(b'{"path": "x"}'), b""),
        (whole(b'{"path": "x", "kind": "door", "size": 1, "modified": 1.0}'), b""),
        (whole(b'{"path": "x", "kind": "file", "size": true, "modified": 1.0}'), b""),
        (whole(b'{"path": "x", "kind": "file", "size": 1, "modified": NaN}'), b""),
        (whole(b'{"path": "x", "kind": "file", "size": -1, "modified": 1.0}'), b""),
        (whole(b"nonsense", b"500 Error"), b""),
        (b"what is HTTP?\r\n\r\n", b""),
        (HEAD, chunk(b" " * 60_000)),
        (b"HTTP/1.1 200 OK\r\n", b"X-Header: " + b"x" * 1000 + b"\r\n"),
    ],
)
def test_nonsense_is_a_failed_sandbox(first: bytes, again: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guest_client, "MAX_ANSWER_BYTES", 1_000_000)

    async def call(client: GuestClient) -> None:
        with pytest.raises(SandboxFailed) as failed:
            await client.stat_file("x")
        assert not isinstance(failed.value, SandboxGone)

    asyncio.run(against(first, again, call))


@pytest.mark.parametrize("first", [b"", HEAD, HEAD + chunk(b"{"), b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{"])
def test_silence_ends_with_the_deadline(first: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guest_client, "WALK_SECONDS", 0.2)

    async def call(client: GuestClient) -> None:
        with pytest.raises(DeadlineExceeded):
            await client.list_files("", recursive=False, limit=1)
        with pytest.raises(DeadlineExceeded):
            await client.wait_ready(0.2)

    asyncio.run(against(first, b"", call))


@pytest.mark.parametrize(
    ("first", "again"),
    [
        (b"", b""),
        (HEAD + chunk(b"not an event\n"), b""),
        (HEAD + chunk(b'{"event": "kernel_started"}\n'), b""),
        (HEAD, chunk(b"x" * 60_000)),
        (whole(b'{"code": "failed", "message": "no"}', b"500 Error"), b""),
    ],
)
def test_the_watch_takes_it_for_gone(first: bytes, again: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guest_client, "SILENCE_SECONDS", 0.3)
    monkeypatch.setattr(guest_client, "PROBE_SECONDS", 0.3)
    told: list[object] = []

    async def call(client: GuestClient) -> None:
        async with asyncio.timeout(120):
            await client.watch(told.append, told.append, lambda: told.append("gone"))

    asyncio.run(against(first, again, call))
    assert told == ["gone"]


def test_a_file_larger_than_said_is_not_taken() -> None:
    async def call(client: GuestClient) -> None:
        received: list[bytes] = []

        async def read() -> None:
            async for piece in client.read_file("x", max_bytes=1_000_000):
                received.append(piece)

        with pytest.raises(SandboxFailed):
            await read()
        assert sum(map(len, received)) <= 1_000_000

    asyncio.run(against(HEAD, chunk(b"x" * 60_000), call))


def test_no_guest_at_all(tmp_path: Path) -> None:
    async def call() -> None:
        client = GuestClient(dial_in("/tmp/there-is-no-such-sandbox"))
        with pytest.raises(SandboxGone):
            await client.interrupt_kernel()
        with pytest.raises(DeadlineExceeded):
            await client.wait_ready(0.1)
        await client.aclose()

    asyncio.run(call())
