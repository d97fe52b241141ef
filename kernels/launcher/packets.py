"""Packets over one end of a SOCK_SEQPACKET pair, with descriptors along with the bytes; for an asyncio loop."""

from __future__ import annotations

import array
import asyncio
import os
import socket
from collections.abc import Callable, Sequence
from typing import Final, TypeVar

import msgspec

from kernels.launcher.wire import PACKET_BYTES

T = TypeVar("T")
_FLAGS: Final = socket.MSG_CMSG_CLOEXEC
_CUT: Final = socket.MSG_TRUNC | socket.MSG_CTRUNC


class Packet(msgspec.Struct, frozen=True):
    """One packet. `cut` says that more bytes or descriptors were sent than are taken; those are gone."""

    data: bytes
    descriptors: list[int] = msgspec.field(default_factory=list)
    cut: bool = False


class Packets:
    """One end. One task receives at a time; any number may send."""

    def __init__(self, end: socket.socket, *, most_descriptors: int = 0) -> None:
        end.settimeout(0)
        self._end = end
        self._ancillary = socket.CMSG_SPACE(most_descriptors * array.array("i").itemsize) if most_descriptors else 0
        self._sending = asyncio.Lock()

    async def receive(self) -> Packet | None:
        """The next packet; None when the other end is closed. An empty packet says the same."""
        loop, number = asyncio.get_running_loop(), self._end.fileno()
        return await self._retry(self._receive, lambda go: loop.add_reader(number, go), loop.remove_reader)

    async def send(self, data: bytes, descriptors: Sequence[int] = ()) -> None:
        """Send a packet once there is room for it; raises `OSError` when the other end is closed."""
        if len(data) > PACKET_BYTES:
            raise ValueError(f"a packet has at most {PACKET_BYTES} bytes, not {len(data)}")
        loop, number = asyncio.get_running_loop(), self._end.fileno()
        async with self._sending:
            await self._retry(
                lambda: socket.send_fds(self._end, [data], list(descriptors), socket.MSG_NOSIGNAL),
                lambda go: loop.add_writer(number, go),
                loop.remove_writer,
            )

    def close(self) -> None:
        """Close this end; no task may be receiving or sending."""
        self._end.close()

    def _receive(self) -> Packet | None:
        try:
            data, ancillary, flags, _ = self._end.recvmsg(PACKET_BYTES, self._ancillary, _FLAGS)
        except ConnectionError:
            return None
        descriptors = array.array("i")
        for level, kind, brought in ancillary:
            if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
                # The system cuts what there is no room for at any byte; a part of a number is no descriptor.
                descriptors.frombytes(brought[: len(brought) - len(brought) % descriptors.itemsize])
        if not data:  # a socket of this kind reads an empty packet as it reads its end
            close_all(descriptors)
            return None
        return Packet(data, list(descriptors), bool(flags & _CUT))

    async def _retry(
        self, attempt: Callable[[], T], watch: Callable[[Callable[[], None]], None], leave: Callable[[int], bool]
    ) -> T:
        number = self._end.fileno()
        while True:
            try:
                return attempt()
            except BlockingIOError:
                pass
            possible: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            watch(lambda future=possible: future.done() or future.set_result(None))  # type: ignore[misc]
            try:
                await possible
            finally:
                leave(number)


def close_all(descriptors: Sequence[int]) -> None:
    """Close descriptors that came with an answer and are not wanted."""
    for one in descriptors:
        os.close(one)
