"""The guest's second kernel and its bridge, with a stand-in for Deno that echoes what comes to its ports."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import stat
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kernels.errors import GuestRefused, NotListening
from kernels.guest_client.client import KernelExit
from kernels.oci.sockets import dial_in
from kernels.wire.dialing import deno_socket
from tests.integration.kernels.guest.conftest import Guests, RunningGuest, Test

Runner = Callable[[Test], None]
ECHO = f"""#!{sys.executable}
import json, socket, sys, threading
ports = json.load(open(sys.argv[-1]))
def serve(name):
    server = socket.create_server(("127.0.0.1", ports[name]))
    while True:
        client, _ = server.accept()
        client.sendall(name.encode() + b"\\n")
        while data := client.recv(65536):
            client.sendall(data)
        client.close()
names = ("shell_port", "iopub_port", "stdin_port", "control_port")
threads = [threading.Thread(target=serve, args=(name,)) for name in names]
for each in threads:
    each.start()
"""


@pytest.fixture
def echo(tmp_path: Path) -> Iterator[Path]:
    place = Path("/tmp") / f"{tmp_path.name}-{os.getpid()}-echo"
    place.write_text(ECHO)
    place.chmod(0o755)
    yield place
    place.unlink()


async def dialled(guest: RunningGuest, generation: int, number: int) -> socket.socket:
    return await dial_in(f"{guest.directory}/t")(deno_socket(generation, number), patience_seconds=1)


async def carried(guest: RunningGuest, generation: int, number: int, data: bytes) -> bytes:
    """What comes back of bytes, and that the end of one side reaches the other."""
    reader, writer = await asyncio.open_unix_connection(sock=await dialled(guest, generation, number))
    async with asyncio.timeout(120):
        sending = asyncio.create_task(send(writer, data))
        answer = await reader.read()
        await sending
    writer.close()
    return answer


async def send(writer: asyncio.StreamWriter, data: bytes) -> None:
    for begin in range(0, len(data), 100_000):
        writer.write(data[begin : begin + 100_000])
        await writer.drain()
    writer.write_eof()


def test_ports_are_carried_byte_for_byte_to_sockets_of_the_guests(with_guests: Runner, echo: Path) -> None:
    async def test(guests: Guests) -> None:
        guest = await guests.start("--deno", str(echo), user=0)
        assert sorted(path.name for path in (guest.directory / "t/guest").iterdir()) == ["http.sock", "relay.sock"]
        started = await guest.client.start_deno()
        assert (started.generation, started.key == guest.first.key) == (1, False)
        assert await guest.client.start_deno() == started
        sockets = sorted((guest.directory / "t/guest").glob("deno-*"))
        assert [path.name for path in sockets] == [f"deno-g1-{number}" for number in range(1, 5)]
        assert {stat.S_IMODE(path.stat().st_mode) for path in sockets} == {0o600}
        content = json.loads((guest.kernel_directory / "deno-g1.json").read_text())
        assert (content["key"], content["transport"], content["ip"]) == (started.key, "tcp", "127.0.0.1")
        data = os.urandom(3_000_000)
        names = ["shell_port", "iopub_port", "stdin_port", "control_port"]
        answers = await asyncio.gather(*(carried(guest, 1, number, data) for number in range(1, 5)))
        assert [answer == name.encode() + b"\n" + data for name, answer in zip(names, answers, strict=True)] == [
            True
        ] * 4

    with_guests(test)


def test_its_end_is_told_and_the_next_is_another(with_guests: Runner, echo: Path) -> None:
    async def test(guests: Guests) -> None:
        guest = await guests.start("--deno", str(echo), user=0)
        ends: list[KernelExit] = []
        watching = guest.client.watch(
            lambda _: None, lambda _: None, lambda: None, on_second_exit=lambda _runtime, gone: ends.append(gone)
        )
        guests.tasks.append(asyncio.create_task(watching))
        with pytest.raises(GuestRefused) as refused:
            await guest.client.kill_deno()
        assert refused.value.code == "no_kernel"
        first = await guest.client.start_deno()
        await guest.client.kill_deno()
        second = await guest.client.start_deno()
        assert (second.generation, second.key != first.key) == (2, True)
        with pytest.raises(NotListening):
            await dialled(guest, 1, 1)
        (await dialled(guest, 2, 1)).close()
        await guest.client.start_kernel(2, keep_others=True)
        assert await guest.client.start_deno() == second
        await guest.client.start_kernel(3)
        assert (await guest.client.start_deno()).generation == 3
        async with asyncio.timeout(120):
            while len(ends) < 2:
                await asyncio.sleep(0.01)
        assert [(each.generation, each.signal) for each in ends] == [(1, "SIGKILL"), (2, "SIGKILL")]

    with_guests(test)


def test_an_image_without_it_says_so_and_the_guest_goes_on(with_guests: Runner) -> None:
    async def test(guests: Guests) -> None:
        guest = await guests.start("--deno", "/nowhere/deno")
        with pytest.raises(GuestRefused) as refused:
            await guest.client.start_deno()
        assert refused.value.code == "no_deno"
        assert (await guest.client.run_command("echo on", timeout_seconds=120, output_bytes=10)).stdout == "on\n"

    with_guests(test)
