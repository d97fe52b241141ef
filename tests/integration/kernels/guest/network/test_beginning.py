"""A guest that waits for its keys: nobody reaches it before it has them, and then who has the others."""

from __future__ import annotations

import asyncio
import json
import socket
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kernels.errors import NotListening
from kernels.guest_client.client import GuestClient
from kernels.kubernetes import certificates
from kernels.kubernetes.streams import Direct, Streams
from tests.doubles.server_process import free_port
from tests.integration.kernels.guest.conftest import Guests, Test

Runner = Callable[[Test], None]
NAME = "sandcell-of-this-test"
KEYS = certificates.make(NAME)


@pytest.fixture
def quiet(tmp_path: Path) -> Iterator[str]:
    """A "Python" whose kernel says nothing and stays."""
    path = Path("/tmp") / f"{tmp_path.name}-quiet"
    path.write_text("#!/bin/sh\nexec sleep 7654331\n")
    path.chmod(0o755)
    yield str(path)
    path.unlink()


def tell(generation: int) -> bytes:
    keys = {name: KEYS[name].decode() for name in certificates.GUEST_FILES}
    return json.dumps({"generation": generation, "keys": keys}).encode() + b"\n"


def test_it_is_reached_once_it_was_told_and_is_of_the_generation_that_it_was_told(
    with_guests: Runner, quiet: str
) -> None:
    async def test(guests: Guests) -> None:
        port, streams = free_port(), Streams()
        options = ("--tls-port", str(port), "--tls-keys", f"{guests.directory}/keys", "--await-keys", "1")
        guest = await guests.start(*options, python=quiet, stdin=subprocess.PIPE)
        context = certificates.open_context(KEYS)

        async def dial(name: str, *, patience_seconds: float = 0) -> socket.socket:
            return await streams.open(Direct(("127.0.0.1", port)), NAME, name, context)

        client = GuestClient(dial)
        with pytest.raises(NotListening):
            await dial("guest")
        assert guest.process.stdin is not None
        with guest.process.stdin as stdin:
            stdin.write(tell(3))

        try:
            assert (await client.wait_ready(60)).generation == 3
        finally:
            await client.aclose()
            await streams.aclose()

    with_guests(test)


@pytest.mark.parametrize("told", [b"", tell(1)[:-9], tell(3)], ids=["nothing", "a part", "a kernel that has died"])
def test_it_ends_when_it_is_told_what_it_cannot_begin_with(told: bytes, with_guests: Runner) -> None:
    """Without `python` its kernel has ended by then: it could not be of a later generation."""

    async def test(guests: Guests) -> None:
        options = ("--tls-port", str(free_port()), "--tls-keys", f"{guests.directory}/keys", "--await-keys", "1")
        guest = await guests.start(*options, stdin=subprocess.PIPE)
        await guest.exit_of(1)
        assert guest.process.stdin is not None
        with guest.process.stdin as stdin:
            stdin.write(told)
        assert await asyncio.to_thread(guest.process.wait, 60) == 1

    with_guests(test)
