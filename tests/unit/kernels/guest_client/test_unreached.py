"""What calls of a guest end with while the way there is out: nothing is known of it, and so it is not gone."""

from __future__ import annotations

import asyncio
import socket

import pytest

from kernels.errors import DeadlineExceeded, NotReached, SandboxFailed, SandboxGone
from kernels.guest_client.client import GuestClient


class Out:
    """A way on which nobody is reached."""

    def __init__(self) -> None:
        self.dialled = 0

    async def dial(self, _name: str, *, patience_seconds: float = 0) -> socket.socket:
        self.dialled += 1
        raise NotReached("the way there is out")


def test_a_guest_that_is_not_reached_is_not_taken_for_gone() -> None:
    async def run() -> None:
        out = Out()
        guest = GuestClient(out.dial)
        with pytest.raises(SandboxFailed) as failed:
            await guest.usage()
        assert not isinstance(failed.value, SandboxGone)
        assert out.dialled == 2  # once more, to see whether it is
        await guest.aclose()

    asyncio.run(run())


def test_a_guest_that_was_never_reached_is_waited_for_and_the_deadline_says_why() -> None:
    async def run() -> None:
        guest = GuestClient(Out().dial)
        with pytest.raises(DeadlineExceeded, match="the guest to answer: the way there is out"):
            await guest.wait_ready(0.1)
        await guest.aclose()

    asyncio.run(run())
