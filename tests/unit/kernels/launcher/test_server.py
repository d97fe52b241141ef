"""What the launcher's end knows of all sandboxes: the pages of a list, and how many there are."""

from __future__ import annotations

import asyncio
import socket
from types import SimpleNamespace
from typing import Any

import pytest

from kernels.errors import SandboxGone
from kernels.launcher import wire
from kernels.launcher.server import Server
from kernels.sandbox import SandboxInfo


def name(number: int) -> str:
    return f"00000000-0000-0000-0000-{number:012}"


class Runtime:
    """Its looks at all sandboxes end when a test says so, with what is there then."""

    def __init__(self) -> None:
        self.looks: list[asyncio.Future[int]] = []

    async def list(self) -> tuple[SandboxInfo, ...]:
        self.looks.append(asyncio.get_running_loop().create_future())
        return tuple(SandboxInfo(name(each), "/w") for each in range(await self.looks[-1]))

    async def reopen(self, sandbox_id: str) -> None:
        if sandbox_id == name(999):
            raise SandboxGone(sandbox_id)


def serve(runtime: Runtime) -> Server:
    end, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    other.close()
    unused: Any = None
    checks: Any = SimpleNamespace(most_sandboxes=1_000)
    server = Server(runtime, checks, end, unused, unused, layers=unused)  # type: ignore[arg-type]
    end.close()
    return server


async def ask(server: Server, request: wire.Request) -> Any:
    return (await server._do(request))[0]


def test_a_look_that_began_earlier_and_ends_later_does_not_replace_a_later_one() -> None:
    async def run() -> None:
        server = serve(runtime := Runtime())
        earlier = asyncio.create_task(ask(server, wire.List("")))
        await asyncio.sleep(0)
        later = asyncio.create_task(ask(server, wire.List("")))
        await asyncio.sleep(0)
        runtime.looks[1].set_result(wire.PAGE + 2)
        assert (await later).more
        runtime.looks[0].set_result(wire.PAGE + 1)
        assert (await earlier).more
        page = await ask(server, wire.List(name(wire.PAGE - 1)))
        assert [each.sandbox_id for each in page.infos] == [name(wire.PAGE), name(wire.PAGE + 1)]
        assert len(runtime.looks) == 2

    asyncio.run(run())


def test_what_is_taken_over_counts() -> None:
    async def run() -> None:
        server = serve(runtime := Runtime())
        counting = asyncio.create_task(locked_count(server))
        await asyncio.sleep(0)
        taking = asyncio.create_task(ask(server, wire.Reopen(name(7))))  # amid a look that does not see it
        await asyncio.sleep(0)
        runtime.looks[0].set_result(2)
        assert await counting == 2
        await taking
        assert await server._count() == 3
        with pytest.raises(SandboxGone):
            await ask(server, wire.Reopen(name(999)))
        assert await server._count() == 3

    asyncio.run(run())


async def locked_count(server: Server) -> int:
    async with server._counting:
        return await server._count()
