"""What the service asked the launcher for and then gave up is taken back."""

from __future__ import annotations

import asyncio
import socket

from kernels.launcher import wire
from kernels.launcher.client import LauncherRuntime
from kernels.launcher.packets import Packets

SANDBOX = "11111111-2222-3333-4444-555555555555"


class Launcher:
    """It thaws at once, and moves memory for ever."""

    def __init__(self, end: socket.socket) -> None:
        self.asked: list[wire.Request] = []
        self.moves = asyncio.Event()
        self._packets = Packets(end)

    async def serve(self) -> None:
        while (packet := await self._packets.receive()) is not None:
            call = wire.decode_call(packet.data)
            self.asked.append(wire.decode_request(call.request))
            if isinstance(self.asked[-1], wire.Thaw):
                await self._packets.send(wire.encode(wire.Reply(call.number, wire.Nothing())))
            else:
                self.moves.set()
        self._packets.close()


def test_a_move_to_swap_that_is_given_up_ends_with_a_thaw() -> None:
    async def run() -> list[wire.Request]:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        runtime, launcher = LauncherRuntime(ours), Launcher(theirs)
        async with asyncio.timeout(120), asyncio.TaskGroup() as group:
            group.create_task(launcher.serve())
            moving = group.create_task(runtime.page_out(SANDBOX))
            await launcher.moves.wait()
            moving.cancel()
            await asyncio.wait({moving})
            await runtime.aclose()
        assert moving.cancelled()
        return launcher.asked

    assert asyncio.run(run()) == [wire.PageOut(SANDBOX), wire.Thaw(SANDBOX)]
