"""What the service asked the launcher for and then gave up is taken back."""

from __future__ import annotations

import asyncio
import socket

from kernels.environment import Environment
from kernels.launcher import wire
from kernels.launcher.client import LauncherRuntime
from kernels.launcher.packets import Packets

SANDBOX = "11111111-2222-3333-4444-555555555555"


LAYER = "sha256:" + "1" * 64
IMAGE = Environment("python", "/e/python/root", "sha256:" + "0" * 64, image="python")


class Launcher:
    """It thaws at once, moves memory for ever, and makes an image until it is told to stop."""

    def __init__(self, end: socket.socket) -> None:
        self.asked: list[wire.Request] = []
        self.moves = asyncio.Event()
        self.stopped = asyncio.Event()
        self.ended = asyncio.Event()
        self._packets = Packets(end)

    async def serve(self) -> None:
        while (packet := await self._packets.receive()) is not None:
            call = wire.decode_call(packet.data)
            self.asked.append(wire.decode_request(call.request))
            if isinstance(self.asked[-1], wire.Thaw | wire.StopLaying):
                await self._answer(call.number, wire.Nothing())
            else:
                self.moves.set()
                first = call.number
            if isinstance(self.asked[-1], wire.StopLaying):
                self.stopped.set()
                await self.ended.wait()
                await self._answer(first, wire.Failed("EnvironmentBuildFailed", "nobody waits for it"))
        self._packets.close()

    async def _answer(self, number: int, answer: wire.Answer) -> None:
        await self._packets.send(wire.encode(wire.Reply(number, answer)))


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


def test_an_image_that_is_given_up_is_stopped_and_its_sandbox_kept_until_that_has_ended() -> None:
    async def run() -> list[wire.Request]:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        runtime, launcher = LauncherRuntime(ours), Launcher(theirs)
        async with asyncio.timeout(120), asyncio.TaskGroup() as group:
            group.create_task(launcher.serve())
            laying = group.create_task(runtime.lay_packages(SANDBOX, IMAGE, LAYER, "debian"))
            await launcher.moves.wait()
            laying.cancel()
            await launcher.stopped.wait()
            await asyncio.sleep(0)
            assert not laying.done()
            launcher.ended.set()
            await asyncio.wait({laying})
            await runtime.aclose()
        assert laying.cancelled()
        return launcher.asked

    assert asyncio.run(run()) == [
        wire.LayPackages(SANDBOX, "python", IMAGE.digest, LAYER, "debian"),
        wire.StopLaying(SANDBOX),
    ]
