"""What is reported of a Deno kernel that ended while nothing ran in it."""

from __future__ import annotations

import asyncio
import socket
from typing import Any, cast

from kernels.errors import Death, SandboxGone
from kernels.execution.hub import Hub
from kernels.guest_client.client import GuestClient, KernelExit
from kernels.sandboxed.deno_kernel import DenoKernel
from kernels.sandboxed.kernel_events import KernelEvent, SecondDied
from kernels.sandboxed.kernel_limits import KernelLimits
from kernels.wire.connection import KernelConnection


async def nobody(name: str, *, patience_seconds: float = 0) -> socket.socket:
    raise SandboxGone(f"nobody listens at {name}")


async def why(_gone: KernelExit) -> Death:
    return Death("exit", "it left")


async def told_of(*ends: KernelExit) -> list[Death]:
    events: list[KernelEvent] = []
    kernel: Any = DenoKernel(cast("GuestClient", None), nobody, KernelLimits(), why, events.append)
    kernel._hub, kernel._generation = Hub(KernelConnection(nobody, 1, b"key")), 1  # as after its start
    for end in ends:
        kernel.handle_exit(end)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
    await kernel.aclose()
    return [each.death for each in events if isinstance(each, SecondDied)]


def test_an_end_that_the_guest_says_twice_is_told_once() -> None:
    end = KernelExit(1, 0, None, "")
    assert len(asyncio.run(told_of(end))) == 1
    assert len(asyncio.run(told_of(end, end, end))) == 1


def test_the_end_of_an_older_one_is_not_this_ones() -> None:
    assert asyncio.run(told_of(KernelExit(2, 0, None, ""))) == []
    assert len(asyncio.run(told_of(KernelExit(0, 0, None, ""), KernelExit(1, 0, None, "")))) == 1
