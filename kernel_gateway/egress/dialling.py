"""From a target to a connection: one look-up, a verdict on each address, and a connection to exactly one of them.

What was decided on is what is connected to: no name is looked up twice, so an answer that changes changes nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
from dataclasses import dataclass
from ipaddress import IPv4Address, ip_address
from typing import Final

from kernel_gateway.egress import policy
from kernel_gateway.egress.addresses import Address, unmap
from kernel_gateway.egress.policy import OperatorRules, Verdict
from kernel_gateway.egress.refusal import Refused
from kernel_gateway.egress.resolver import Resolve
from kernel_gateway.egress.stream import Stream
from kernel_gateway.egress.target import Target

# Whether an address is one of this host, asked of the kernel's routing table: no list of interfaces goes stale.

_ROUTE, _ASK, _REQUEST, _DESTINATION = 0, 26, 1, 1  # NETLINK_ROUTE, RTM_GETROUTE, NLM_F_REQUEST, RTA_DST
_HEADER, _MESSAGE, _ATTRIBUTE = struct.Struct("=IHHII"), struct.Struct("=8BI"), struct.Struct("=HH")
_ANSWER: Final = 24  # RTM_NEWROUTE; what else comes is an error: there is no route
_HERE: Final = (2, 3, 4, 5)  # RTN_LOCAL, RTN_BROADCAST, RTN_ANYCAST, RTN_MULTICAST
_SECONDS: Final = 2


def is_own(address: Address) -> bool:
    """Whether what is sent there stays here, or goes to all of a network. Raises OSError when the kernel is silent."""
    family = socket.AF_INET if isinstance(address, IPv4Address) else socket.AF_INET6
    size = _ATTRIBUTE.size + len(address.packed)
    message = _MESSAGE.pack(family, address.max_prefixlen, 0, 0, 0, 0, 0, 0, 0)
    message += _ATTRIBUTE.pack(size, _DESTINATION) + address.packed
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _ROUTE) as kernel:
        kernel.settimeout(_SECONDS)
        kernel.send(_HEADER.pack(_HEADER.size + len(message), _ASK, _REQUEST, 1, 0) + message)
        answer = kernel.recv(8192)
    what = _HEADER.unpack_from(answer)[1]
    return what == _ANSWER and _MESSAGE.unpack_from(answer, _HEADER.size)[7] in _HERE


_MOST_ADDRESSES = 16


@dataclass(frozen=True)
class Route:
    """An address that may be connected to, and why."""

    address: Address
    verdict: Verdict


class Dialler:
    """Resolves, judges and connects for one session."""

    def __init__(self, operator: OperatorRules, resolve: Resolve, *, look_ups: int) -> None:
        self._operator = operator
        self._resolve = resolve
        self._looking_up = asyncio.Semaphore(look_ups)
        self._asking: set[asyncio.Task[list[str]]] = set()

    async def routes(self, target: Target) -> list[Route]:
        """The addresses of the target that may be connected to. Raises `Refused` when there are none."""
        found = [target.address] if target.address else await self._look_up(target)
        judged = [Route(address, self._judge(target, address)) for address in found]
        allowed = [route for route in judged if route.verdict.allowed]
        if not allowed:
            raise Refused(403, judged[0].verdict, address=judged[0].address)
        return allowed

    def _judge(self, target: Target, address: Address) -> Verdict:
        try:
            own = is_own(address)
        except OSError:
            own = True
        return policy.on_address(self._operator, target, address, own=own)

    async def _look_up(self, target: Target) -> list[Address]:
        """One answer of the resolver. Only a name that the operator declared may be one of this host's own network."""
        declared = any(policy.covers(one, target) for one in self._operator.private)
        name = target.host if declared else target.host + "."
        try:
            answer = await asyncio.shield(await self._ask(name, target.port))
            found = [unmap(ip_address(text.partition("%")[0])) for text in answer[:_MOST_ADDRESSES]]
        except (OSError, ValueError) as error:
            raise Refused(502, policy.no("not_resolved", f"{target.host} cannot be resolved: {error}")) from error
        if not found:
            raise Refused(502, policy.no("not_resolved", f"{target.host} has no address"))
        return found

    async def _ask(self, name: str, port: int) -> asyncio.Task[list[str]]:
        """Look a name up in its turn: it is never had by who left before it, and lasts until the resolver is done."""
        await self._looking_up.acquire()
        asking = asyncio.create_task(self._answer(name, port))
        self._asking.add(asking)
        asking.add_done_callback(self._end_lookup)
        return asking

    async def _answer(self, name: str, port: int) -> list[str]:
        return await self._resolve(name, port)

    def _end_lookup(self, asking: asyncio.Task[list[str]]) -> None:
        self._looking_up.release()
        self._asking.discard(asking)
        if not asking.cancelled():
            asking.exception()

    async def aclose(self) -> None:
        """Give up what is being looked up."""
        for asking in (under_way := list(self._asking)):
            asking.cancel()
        await asyncio.gather(*under_way, return_exceptions=True)


async def connect(routes: list[Route], port: int, seconds: float) -> tuple[Route, Stream]:
    """A connection to the first that takes one; each but the last gets half of the time that is left.

    Raises `Refused` when none does.
    """
    loop = asyncio.get_running_loop()
    end = loop.time() + seconds
    failures: list[str] = []
    for route in routes:
        left = end - loop.time()
        try:
            async with asyncio.timeout(left if route is routes[-1] else left / 2):
                return route, await _connect(route.address, port)
        except OSError as error:
            failures.append(f"{route.address}: {error.strerror or 'no answer in time'}")
    sentence = f"nothing answers at port {port} of {'; '.join(failures)}"
    raise Refused(502, policy.no("unreachable", sentence), address=routes[-1].address)


async def _connect(address: Address, port: int) -> Stream:
    family = socket.AF_INET if isinstance(address, IPv4Address) else socket.AF_INET6
    with contextlib.ExitStack() as undo:
        made = undo.enter_context(socket.socket(family, socket.SOCK_STREAM))
        made.settimeout(0)
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        await asyncio.get_running_loop().sock_connect(made, (str(address), port))
        undo.pop_all()
    return Stream(made)
