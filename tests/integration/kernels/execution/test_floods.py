"""Peers that send as fast as they can: what waits for them is bounded, and others have their turn."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from kernels.wire import zmtp
from kernels.wire.channel import UNREAD_BYTES, Channel, Pace

PINGS = b"\x04\x07\x04PING\x00\x00" * 8192
FRAMES = b"\x01\x00" * 32_768


@pytest.fixture(params=[PINGS, FRAMES], ids=["pings", "frames"])
def flooding(request: pytest.FixtureRequest, short_directory: Path) -> Iterator[str]:
    """A socket whose peer shakes hands and then floods, and never reads again."""
    path = f"{short_directory}/flood"
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.listen()

    def flood() -> None:
        connection, _ = listener.accept()
        with connection:
            try:
                connection.sendall(zmtp.GREETING + zmtp.ready("ROUTER"))
                while True:
                    connection.sendall(request.param)
            except OSError:
                return

    thread = threading.Thread(target=flood)
    thread.start()
    yield path
    thread.join(120)
    listener.close()
    Path(path).unlink()


def test_a_flood_is_bounded_and_leaves_the_loop_to_others(flooding: str) -> None:
    async def scenario() -> tuple[int, int]:
        loop = asyncio.get_running_loop()
        transport, channel = await loop.create_unix_connection(
            lambda: Channel(lambda _message: None, lambda _why: None, Pace()), flooding
        )
        channel.write(zmtp.GREETING + zmtp.ready("DEALER"))
        await channel.ready
        busy = turns = 0
        for _ in range(200):
            began = loop.time()
            await asyncio.sleep(0.005)
            turns += 1
            busy += loop.time() - began > 0.01  # the loop was elsewhere for longer than a short turn
        waiting = transport.get_write_buffer_size()
        channel.close()
        await asyncio.sleep(0)
        return waiting, busy * 100 // turns

    waiting, busy = asyncio.run(scenario())
    assert waiting <= UNREAD_BYTES + 64 * 1024
    assert busy < 90
