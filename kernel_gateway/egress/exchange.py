"""One plain HTTP request passed on and its answer passed back, both parsed and rewritten: no byte goes on unread.

Each side speaks with this proxy alone: what concerns one connection, and what is meant for proxies, is not passed on.
One request a connection; redirects are answers like any other.
"""

from __future__ import annotations

import asyncio

import h11

from kernel_gateway.egress import head, linear
from kernel_gateway.egress.budget import Meter
from kernel_gateway.egress.head import BadHead
from kernel_gateway.egress.stream import Stream
from kernel_gateway.egress.target import Target, bracket
from kernel_gateway.egress.tunnel import Idle

_CLOSE = (b"Connection", b"close")
_GONE_SECONDS = 30
"""How long a server may be silent once the client has ended its side."""


class Exchange:
    """Carries one request to the server and the answer back. It is `answered` once the client has any of it."""

    def __init__(self, client: Stream, asked: h11.Connection, server: Stream, meter: Meter) -> None:
        self._client, self._asked = client, asked
        self._server = server
        self._asking = linear.open_connection(h11.CLIENT, meter.limits.header_bytes)
        self._meter = meter
        self._idle = Idle(meter.limits.idle_seconds)
        self.answered = False

    async def run(self, request: h11.Request, target: Target) -> None:
        """Do it. Raises OSError, `BadHead`, `h11.ProtocolError`, `OverBudget`, and TimeoutError when nothing moves."""
        await self._idle.over(self._move_both(request, target))

    async def _move_both(self, request: h11.Request, target: Target) -> None:
        """The request may still be on its way when the answer is complete: then the rest of it is not wanted."""
        await self._to_server(self._asking.send(_rewrite(request, target)))
        if self._asked.they_are_waiting_for_100_continue:
            await self._client.write(self._asked.send(h11.InformationalResponse(status_code=100, headers=[])) or b"")
        sending = asyncio.create_task(self._send_body())
        answering = asyncio.create_task(self._pass_back())
        answering.add_done_callback(lambda _: sending.cancel())
        try:
            done, _ = await asyncio.wait((sending, answering), return_when=asyncio.FIRST_EXCEPTION)
            for one in done:
                if not one.cancelled():
                    one.result()
        finally:
            sending.cancel()
            answering.cancel()
            await asyncio.gather(sending, answering, return_exceptions=True)

    async def _send_body(self) -> None:
        while True:
            await asyncio.sleep(0)  # one piece may be thousands of chunks: others have their turn between them
            try:
                event = self._asked.next_event()
            except h11.RemoteProtocolError as error:
                raise BadHead("bad_body", f"the request's body is not what its head says: {error}") from error
            if event is h11.NEED_DATA:
                self._asked.receive_data(await self._client.read())
                self._idle.restart()
            elif isinstance(event, h11.Data):
                await self._to_server(self._asking.send(event))
            elif isinstance(event, h11.EndOfMessage):
                await self._to_server(self._asking.send(h11.EndOfMessage()))
                return await self._see_client_leave()
            else:
                raise h11.LocalProtocolError(f"the client said {event!r} within its request")

    async def _see_client_leave(self) -> None:
        """One that says no more is most likely gone: its connection is not held open for an answer that takes long."""
        if not await self._client.read():
            self._idle.hurry(_GONE_SECONDS)

    async def _pass_back(self) -> None:
        while True:
            await asyncio.sleep(0)
            event = self._asking.next_event()
            if event is h11.NEED_DATA:
                self._asking.receive_data(await self._server.read())
                self._idle.restart()
            elif isinstance(event, h11.Response):
                headers = [
                    *head.select_forwarded(event.headers.raw_items()),
                    *head.select_framing(event.headers),
                    _CLOSE,
                ]
                await self._to_client(h11.Response(status_code=event.status_code, reason=event.reason, headers=headers))
            elif isinstance(event, h11.Data):
                await self._to_client(event)
            elif isinstance(event, h11.EndOfMessage):
                return await self._to_client(h11.EndOfMessage())
            elif not isinstance(event, h11.InformationalResponse):
                raise h11.RemoteProtocolError(f"the server said {event!r} instead of an answer")

    async def _to_server(self, data: bytes | None) -> None:
        if data:
            self._meter.send(len(data))
            await self._server.write(data)
            self._idle.restart()

    async def _to_client(self, event: h11.Event) -> None:
        data = self._asked.send(event)
        if data:
            self._meter.receive(len(data))
            self.answered = True
            await self._client.write(data)
            self._idle.restart()


def _rewrite(request: h11.Request, target: Target) -> h11.Request:
    """The request as the server gets it: the path alone, and a Host that is the target's."""
    host = bracket(target.host) if target.port == 80 else target.authority
    headers = [
        (b"Host", host.encode()),
        *head.select_forwarded(request.headers.raw_items()),
        *head.select_framing(request.headers),
        _CLOSE,
    ]
    return h11.Request(method=request.method, target=target.path + target.query, headers=headers)
