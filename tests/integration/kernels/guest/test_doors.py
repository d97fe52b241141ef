"""What the host comes in by: closed for the sandbox to be saved, and opened again."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from pathlib import Path

from kernels.oci.checkpoints import AWAKE, SOCKETS

from .conftest import Guests, Test, until

CONNECTIONS = 200
"""So many take the guest a while to close."""
REQUEST = b"GET /v1/status HTTP/1.1\r\nHost: guest\r\n\r\n"


def connect(place: Path) -> socket.socket:
    """A connection over which a request was answered."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.settimeout(120)
    connection.connect(str(place))
    connection.sendall(REQUEST)
    assert connection.recv(65_536)
    return connection


def count_open_once_gone(places: list[Path], connections: list[socket.socket]) -> int:
    """How many of the connections the guest has not closed when the files of its sockets are gone."""
    while any(place.exists() for place in places):
        pass  # the moment counts: the host saves the sandbox from then on
    still_open = 0
    for connection in reversed(connections):
        connection.setblocking(False)
        try:
            still_open += connection.recv(1) != b""
        except BlockingIOError:
            still_open += 1
    return still_open


def test_every_connection_is_closed_before_the_host_sees_that_the_guest_is_ready_to_be_saved(
    with_guests: Callable[[Test], None],
) -> None:
    async def test(guests: Guests) -> None:
        guest = await guests.start(own_network=True)
        directory = guest.directory / "t/guest"
        places = [directory / name for name in SOCKETS]
        connections = [await asyncio.to_thread(connect, places[0]) for _ in range(CONNECTIONS)]
        looking = asyncio.create_task(asyncio.to_thread(count_open_once_gone, places, connections))
        await guest.client.stand_by()
        assert await looking == 0
        (directory / AWAKE).touch()

        async def is_back() -> bool:
            return all(place.exists() for place in places)

        await until(is_back)
        connect(places[0]).close()
        for connection in connections:
            connection.close()

    with_guests(test)
