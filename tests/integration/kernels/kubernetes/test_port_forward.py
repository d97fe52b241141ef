"""Streams to a guest through an API server, and what is said when one is not had."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from kernels.errors import NotListening, NotReached
from kernels.kubernetes import certificates, port_forward
from kernels.kubernetes.cluster import Cluster
from kernels.kubernetes.port_forward import Forwarding
from kernels.kubernetes.streams import open_stream
from kernels.sandbox import KubernetesSettings
from tests.doubles.forwarding_server import ForwardingServer, forwarding_server
from tests.doubles.server_process import free_port
from tests.integration.kernels.kubernetes import test_streams
from tests.integration.kernels.kubernetes.test_streams import NAME

SOME = bytes(range(256)) * 4096


@dataclass
class Place:
    """A guest's front behind an API server; what is behind the front says everything twice."""

    guest: test_streams.Place
    server: ForwardingServer
    forwarding: Forwarding

    async def open(self, keys: dict[str, bytes] | None = None) -> socket.socket:
        context = certificates.open_context(keys or self.guest.keys)
        return await self.guest.streams.open(self.forwarding.to("a-pod"), NAME, "guest", context)


@asynccontextmanager
async def place(directory: Path) -> AsyncIterator[Place]:
    async with test_streams.place(directory) as guest, forwarding_server(directory, guest.port) as (server, config):
        cluster = Cluster(KubernetesSettings(str(config), port_forward=True))
        forwarding = Forwarding(cluster)
        try:
            yield Place(guest, server, forwarding)
        finally:
            await guest.streams.aclose()
            await forwarding.aclose()
            cluster.close()
            await until(lambda: not server.open)


async def until(holds: Callable[[], bool]) -> None:
    """Whoever waits has a guard."""
    while not holds():
        await asyncio.sleep(0.01)


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(port_forward, "_AGAIN_SECONDS", 0)


def test_bytes_go_both_ways_and_the_end_of_either_ends_all(tmp_path: Path) -> None:
    async def run() -> None:
        async with place(tmp_path) as there:
            reader, writer = await asyncio.open_connection(sock=await there.open())
            writer.write(SOME)
            assert len(await reader.readexactly(len(SOME) * 2)) == len(SOME) * 2
            assert len(there.server.open) == 1
            writer.close()
            await until(lambda: not there.server.open)
            reader, writer = await asyncio.open_connection(sock=await there.open())
            (connection,) = there.server.open
            connection.transport.abort()
            assert await reader.read() == b""
            writer.close()
            assert set(there.server.asked) == {"/api/v1/namespaces/sandcell/pods/a-pod/portforward?ports=7443"}

    asyncio.run(run())


def test_each_connection_is_made_with_the_token_of_its_time(tmp_path: Path) -> None:
    async def run() -> None:
        async with place(tmp_path) as there:
            for _ in range(3):
                (await there.open()).close()
            tokens = [str(each) for each in there.server.tokens]
            assert all(each.startswith("Bearer token-") for each in tokens)
            assert len(set(tokens)) == 3

    asyncio.run(run())


def test_another_sandboxs_keys_do_not_pass(tmp_path: Path) -> None:
    async def run() -> None:
        async with place(tmp_path) as there:
            with pytest.raises(NotListening):
                await there.open(certificates.make(NAME))
            await until(lambda: not there.server.open)

    asyncio.run(run())


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, NotListening),
        (404, NotListening),
        (401, NotReached),
        (403, NotReached),
        (429, NotReached),
        (503, NotReached),
    ],
)
def test_a_refusal_is_the_pods_or_the_servers(status: int, kind: type[Exception], tmp_path: Path) -> None:
    async def run() -> None:
        async with place(tmp_path) as there:
            there.server.refusal = status, "in its own words"
            with pytest.raises(kind, match="in its own words") as refused:
                await there.open()
            assert refused.type is kind

    asyncio.run(run())


def test_a_port_at_which_nobody_listens_in_the_pod_is_said_in_the_nodes_words(tmp_path: Path) -> None:
    async def run() -> None:
        async with place(tmp_path) as there:
            there.server.port = free_port()
            with pytest.raises(NotListening, match="failed to connect to localhost:7443"):
                await there.open()

    asyncio.run(run())


def test_a_server_that_breaks_off_says_nothing_of_the_guest(tmp_path: Path) -> None:
    async def run() -> None:
        async with place(tmp_path) as there:
            there.server.breaking = True
            with pytest.raises(NotReached):
                await there.open()

    asyncio.run(run())


def test_a_server_that_does_not_answer_is_waited_for_to_a_bound(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def run() -> None:
        async with place(tmp_path) as there:
            (await there.open()).close()
            monkeypatch.setattr(port_forward, "OPEN_SECONDS", 0.5)
            there.server.hanging = True
            with pytest.raises(NotReached, match="did not answer"):
                await there.open()
            there.server.hanging = False
            (await there.open()).close()

    asyncio.run(run())


def test_without_a_server_the_way_is_out(tmp_path: Path) -> None:
    async def run() -> None:
        async with place(tmp_path) as there:
            pass
        cluster = Cluster(KubernetesSettings(str(tmp_path / "kubeconfig"), port_forward=True))
        way = Forwarding(cluster).to("a-pod")
        with pytest.raises(NotReached):
            await open_stream(way, NAME, certificates.open_context(there.guest.keys))
        cluster.close()

    asyncio.run(run())


def test_what_is_not_taken_is_not_read(tmp_path: Path) -> None:
    """Each buffer on the way is bounded."""

    async def run() -> None:
        async with place(tmp_path) as there:
            connected = await there.open()
            loop = asyncio.get_running_loop()
            sending = asyncio.create_task(loop.sock_sendall(connected, bytes(64 << 20)))
            before = -1
            while before != there.server.sent_bytes:
                before = there.server.sent_bytes
                await asyncio.sleep(0.5)
            assert 0 < before < 16 << 20
            assert not sending.done()
            taken = 0
            while taken < 128 << 20:
                taken += len(await loop.sock_recv(connected, 1 << 20))
            await sending
            connected.close()

    asyncio.run(run())


def test_all_ends_with_the_service(tmp_path: Path) -> None:
    async def run() -> None:
        async with place(tmp_path) as there:
            connected = await there.open()
            await there.forwarding.aclose()
            await until(lambda: not there.server.open)
            assert await asyncio.get_running_loop().sock_recv(connected, 1) == b""
            connected.close()

    asyncio.run(run())
