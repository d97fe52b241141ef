"""The HTTP proxy of one session: CONNECT and plain HTTP, one request a connection, each decided and recorded once.

A request that is refused gets an answer that names the network mode and the reason. What is not understood to the last
byte of its head goes nowhere.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
from typing import Final

import h11

from kernel_gateway.egress import policy, tunnel
from kernel_gateway.egress.budget import Budget, Meter, OverBudget
from kernel_gateway.egress.decision import Decision, Party, Record
from kernel_gateway.egress.dialling import Dialler, Route, connect
from kernel_gateway.egress.exchange import Exchange
from kernel_gateway.egress.head import BadHead
from kernel_gateway.egress.intake import Asked, BadRequest, receive
from kernel_gateway.egress.policy import OperatorRules, Verdict
from kernel_gateway.egress.refusal import Refused, answer
from kernel_gateway.egress.resolver import Resolve
from kernel_gateway.egress.stream import Stream
from kernels.environment import NetworkPolicy

LOOK_UPS: Final = 4
MOST_DISCARDED_BYTES: Final = 1024 * 1024
_LINGER_SECONDS: Final = 2
_ESTABLISHED: Final = b"HTTP/1.1 200 Connection established\r\n\r\n"


class HttpProxy:
    """Serves the connections of one session's `http` socket."""

    def __init__(
        self,
        party: Party,
        network: NetworkPolicy,
        budget: Budget,
        *,
        operator: OperatorRules,
        resolve: Resolve,
        record: Record,
    ) -> None:
        self._party = party
        self._network = network
        self._budget = budget
        self._dialler = Dialler(operator, resolve, look_ups=LOOK_UPS)
        self._record = record
        self._out_of_requests = False

    async def aclose(self) -> None:
        """Give up what is under way besides connections."""
        await self._dialler.aclose()

    async def serve(self, client: Stream) -> None:
        """Serve one connection to its end; the caller counts it as open and closes it. Cancelled, it leaves at once."""
        asked: Asked | None = None
        try:
            asked = await receive(client, self._budget.limits)
            if asked is None:
                return
            self._count()
            await self._carry(asked, client)
        except Refused as refused:
            self._record_refusal(asked, refused)
            await client.write(answer(self._network.mode, refused))
        if asked is None or asked.kind == "http":
            await _linger(client)

    def _count(self) -> None:
        """Count the request in the session's budget."""
        try:
            self._budget.ask()
        except OverBudget as over:
            raise Refused(429, policy.no(over.word, str(over))) from None

    def _record_refusal(self, asked: Asked | None, refused: Refused) -> None:
        """Of refusals for want of requests the first is recorded alone, or the record would have no end."""
        if not refused.allowed:
            self._budget.refuse()
        if refused.verdict.word == "requests":
            if self._out_of_requests:
                return
            self._out_of_requests = True
        what = asked or (refused if isinstance(refused, BadRequest) else None)
        if what:
            address = None if refused.address is None else str(refused.address)
            reason = refused.verdict.reason
            self._record(Decision(self._party, what.kind, what.method, what.shown, address, refused.allowed, reason))

    async def _carry(self, asked: Asked, client: Stream) -> None:
        verdict = policy.on_request(self._network, asked.method, asked.target, asked.request.headers)
        if not verdict.allowed:
            raise Refused(403, verdict)
        route, server = await self._connect(asked)
        reason = verdict.reason if route.verdict.word == "public" else route.verdict.reason
        decision = Decision(
            self._party, asked.kind, asked.method, asked.shown, str(route.address), allowed=True, reason=reason
        )
        self._record(decision)
        meter = Meter(self._budget)
        end = policy.no("cut", "the session's way out was closed")
        try:
            end = await self._exchange(asked, client, server, meter)
        finally:
            server.close()
            self._record(
                dataclasses.replace(
                    decision,
                    reason=end.reason,
                    ended=True,
                    sent_bytes=meter.sent_bytes,
                    received_bytes=meter.received_bytes,
                )
            )

    async def _connect(self, asked: Asked) -> tuple[Route, Stream]:
        seconds = self._budget.limits.connect_seconds
        try:
            async with asyncio.timeout(seconds):
                routes = await self._dialler.routes(asked.target)
        except TimeoutError:
            sentence = f"no name server answered for {asked.target.host} within {seconds:g} s"
            raise Refused(504, policy.no("not_resolved", sentence)) from None
        return await connect(routes, asked.target.port, seconds)

    async def _exchange(self, asked: Asked, client: Stream, server: Stream, meter: Meter) -> Verdict:
        """Move what there is to move; how it ended. Where the server has not answered, this proxy does."""
        exchange = Exchange(client, asked.connection, server, meter)
        try:
            if asked.kind == "http":
                await exchange.run(asked.request, asked.target)
            else:
                await self._tunnel(asked.early, client, server, meter)
            return policy.yes("complete", "it came to its end")
        except OverBudget as over:
            refused = Refused(429, policy.no(over.word, str(over)))
        except TimeoutError:
            refused = Refused(504, policy.no("idle", f"nothing moved for {meter.limits.idle_seconds:g} s"))
        except BadHead as error:
            refused = Refused(400, policy.no(error.word, str(error)))
        except (OSError, h11.ProtocolError) as error:
            refused = Refused(502, policy.no("broken", f"the connection broke: {error}"))
        if asked.kind == "http" and not exchange.answered:
            with contextlib.suppress(OSError):
                await client.write(answer(self._network.mode, refused))
        return refused.verdict

    async def _tunnel(self, early: bytes, client: Stream, server: Stream, meter: Meter) -> None:
        await client.write(_ESTABLISHED)
        if early:
            meter.send(len(early))
            async with asyncio.timeout(meter.limits.idle_seconds):
                await server.write(early)
        await tunnel.carry(client, server, meter)


async def _linger(client: Stream) -> None:
    """Take in what the client still sends, within bounds: closing on unread bytes would take the answer from it."""
    client.end()
    discarded = 0
    with contextlib.suppress(OSError):
        async with asyncio.timeout(_LINGER_SECONDS):
            while discarded < MOST_DISCARDED_BYTES and (piece := await client.read()):
                discarded += len(piece)
