"""The way to guests whose addresses are not reached from here: through the API server, which forwards a pod's port.

Each connection is a WebSocket to the server, which leads it over the pod's node to the pod's loopback. TLS with the
guest goes through it: the server, the node and what lies between cannot read it.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import socket
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from kernels.cancelling import cancel_all
from kernels.errors import NotListening, NotReached, SandboxFailed
from kernels.kubernetes import manifests
from kernels.kubernetes.cluster import Cluster
from kernels.kubernetes.streams import CONNECT_SECONDS, PIECE_BYTES, End, Stream, Way

if TYPE_CHECKING:
    from websockets.asyncio.client import ClientConnection

OPEN_SECONDS: Final = 2.0
"""Less than a broken stream of a kernel is given to come back (`kernels.wire.relay_link.RESUME_SECONDS`): so it hears
that the way there is out before it gives up."""
_AGAIN_SECONDS: Final = 1.0
"""What one that fails takes at least, on average: who dials tries again at once, and there may be thousands."""
_DATA, _ERROR = 0, 1
"""Channels of the only port that is asked for."""
_HEAD_LENGTH: Final = 2
"""What each channel begins with: the number of the port."""
_LONGEST_WORD: Final = 500


@dataclass(frozen=True)
class _Way:
    forwarding: Forwarding
    pod: str

    async def connect(self, name: str, context: ssl.SSLContext, make: Callable[[], End]) -> End:
        return await self.forwarding.connect(self.pod, name, context, make)


class Forwarding:
    """All that this process has forwarded."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._carrying: set[asyncio.Task[None]] = set()

    def to(self, pod: str) -> Way:
        return _Way(self, pod)

    async def connect(self, pod: str, name: str, context: ssl.SSLContext, make: Callable[[], End]) -> End:
        """As `streams.Way` has it."""
        loop = asyncio.get_running_loop()
        again = loop.time() + _AGAIN_SECONDS * random.uniform(0.5, 1.5)  # noqa: S311 - it hides nothing
        try:
            connection = await self._cluster.open_socket(pod, "portforward", OPEN_SECONDS, ports=str(manifests.PORT))
        except NotReached:
            await asyncio.sleep(again - loop.time())
            raise
        except SandboxFailed as error:
            raise NotListening(f"the guest is not reached: {error}") from None
        try:
            caller, near = await _make_pair()
        except BaseException:
            connection.transport.abort()
            raise
        forwarded = _Forwarded(connection, near)
        task = asyncio.create_task(forwarded.carry())
        self._carrying.add(task)

        def end(task: asyncio.Task[None]) -> None:
            """Here, since one that is cancelled may not have begun."""
            self._carrying.discard(task)
            near[1].close()
            connection.transport.abort()

        task.add_done_callback(end)
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                return (await loop.create_connection(make, sock=caller, ssl=context, server_hostname=name))[1]
        except BaseException as error:
            task.cancel()
            caller.close()
            if not isinstance(error, (OSError, TimeoutError)):  # TLS's own are OSErrors
                raise
            raise forwarded.why or NotListening(f"the guest is not reached: {error or 'no answer'}") from None

    async def aclose(self) -> None:
        await cancel_all(list(self._carrying))


async def _make_pair() -> tuple[socket.socket, Stream]:
    """Two ends of one stream of bytes: a non-blocking socket, and what reads and writes the other."""
    caller, theirs = socket.socketpair()
    try:
        caller.setblocking(False)  # noqa: FBT003
        return caller, await asyncio.open_connection(sock=theirs, limit=PIECE_BYTES)
    except BaseException:
        caller.close()
        theirs.close()
        raise


class _Forwarded:
    """One connection to the server, and this end of the caller's stream."""

    def __init__(self, connection: ClientConnection, near: Stream) -> None:
        self.why: SandboxFailed | None = None
        """What ended it, once that is known."""
        self._connection = connection
        self._near = near

    async def carry(self) -> None:
        """Both ways, until one end closes."""
        ways = [asyncio.create_task(self._send()), asyncio.create_task(self._receive())]
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            await cancel_all(ways)
            self._near[1].close()
        await self._connection.close()

    async def _send(self) -> None:
        from websockets.exceptions import ConnectionClosed  # noqa: PLC0415 - comes with the extra

        with contextlib.suppress(OSError, ConnectionClosed):
            while piece := await self._near[0].read(PIECE_BYTES):
                await self._connection.send(bytes((_DATA,)) + piece)

    async def _receive(self) -> None:
        from websockets.exceptions import ConnectionClosedError  # noqa: PLC0415

        heads = {_DATA: _HEAD_LENGTH, _ERROR: _HEAD_LENGTH}
        try:
            async for message in self._connection:
                if not isinstance(message, bytes) or not message or message[0] not in heads:
                    raise ValueError("the API server sent a message of no channel")
                channel = message[0]
                skipped = min(heads[channel], len(message) - 1)
                heads[channel] -= skipped
                content = memoryview(message)[1 + skipped :]
                if channel == _ERROR and content:
                    raise ValueError(bytes(content[:_LONGEST_WORD]).decode(errors="replace"))
                self._near[1].write(content)
                await self._near[1].drain()
        except ConnectionClosedError as error:
            self.why = NotReached(f"the Kubernetes API server broke off: {error}")
        except (OSError, ValueError) as error:
            self.why = NotListening(f"the guest is not reached: {error}")
