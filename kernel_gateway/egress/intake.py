"""From bytes to a request that was read to the last of its head, or to its refusal."""

from __future__ import annotations

import asyncio

import h11
import msgspec

from kernel_gateway.egress import head, linear, policy
from kernel_gateway.egress.budget import EgressLimits
from kernel_gateway.egress.decision import Kind
from kernel_gateway.egress.head import BadHead
from kernel_gateway.egress.refusal import Refused
from kernel_gateway.egress.stream import Stream
from kernel_gateway.egress.target import BadTarget, Target, is_same_authority, parse_tunnel, parse_url

_LONGEST_SHOWN = 1024


class Asked(msgspec.Struct, frozen=True):
    """A request, h11's side of the connection it came on, and what came after the head of a CONNECT."""

    connection: h11.Connection
    request: h11.Request
    target: Target
    early: bytes

    @property
    def kind(self) -> Kind:
        return "http" if self.target.path else "connect"

    @property
    def method(self) -> str:
        return self.request.method.decode()

    @property
    def shown(self) -> str:
        """The target as it is recorded: without the query, which may hold secrets."""
        text = self.target.authority
        return f"http://{text}{self.target.path}"[:_LONGEST_SHOWN] if self.target.path else text


class BadRequest(Refused):
    """A request that could not be read; what could be of it, for the record."""

    def __init__(self, status: int, word: str, sentence: str, *, method: str = "", shown: str = "") -> None:
        super().__init__(status, policy.no(word, sentence))
        self.method = method
        self.shown = shown
        self.kind: Kind = "connect" if method == "CONNECT" else "http"


async def receive(client: Stream, limits: EgressLimits) -> Asked | None:
    """The request of a connection; None when it ends or stays silent without one. Raises `BadRequest`, OSError."""
    data = bytearray()
    try:
        async with asyncio.timeout(limits.header_seconds):
            end = await _read_head(client, data, limits.header_bytes)
    except TimeoutError:
        if not data:
            return None
        raise BadRequest(408, "slow_head", f"the request's head took more than {limits.header_seconds:g} s") from None
    except BadHead as error:
        raise BadRequest(400, error.word, str(error)) from None
    return read(bytes(data[:end]), bytes(data[end:]), limits) if end else None


async def _read_head(client: Stream, data: bytearray, header_bytes: int) -> int:
    """Read until the head is there; where it ends, 0 when nothing ever came."""
    while True:
        looked_at = len(data)
        piece = await client.read()
        if not piece and not data:
            return 0
        if not piece:
            raise BadHead("incomplete", "the connection ended within the request's head")
        data += piece
        end = head.end_of(data, looked_at)
        if (end or len(data)) > header_bytes:
            raise BadRequest(431, "long_head", f"a request's head may have {header_bytes} bytes")
        if end:
            return end


def read(raw: bytes, rest: bytes, limits: EgressLimits) -> Asked:
    """The request of a complete head; `rest` is what came after it. Raises `BadRequest`. Pure."""
    method, shown = _glimpse(raw)
    try:
        head.check(raw)
        connection = linear.open_connection(h11.SERVER, limits.header_bytes)
        connection.receive_data(raw)
        request = connection.next_event()
        if not isinstance(request, h11.Request):
            raise BadHead("bad_head", "the request's head is incomplete")
        target = _read_target(request)
        if method != "CONNECT" and rest:  # to h11, nothing is the end of the connection
            connection.receive_data(rest)
    except h11.RemoteProtocolError as error:
        raise BadRequest(400, "bad_head", str(error), method=method, shown=shown) from None
    except (BadHead, BadTarget) as error:
        status = 403 if error.word == "odd_address" else 400
        raise BadRequest(status, error.word, str(error), method=method, shown=shown) from None
    return Asked(connection, request, target, rest if method == "CONNECT" else b"")


def _read_target(request: h11.Request) -> Target:
    text = request.target.decode("ascii")
    target = parse_tunnel(text) if request.method == b"CONNECT" else parse_url(text)
    host = dict(request.headers).get(b"host")
    if host is not None and not is_same_authority(target, host.decode("latin-1")):
        raise BadTarget("other_host", "the Host header names another host than the request's target")
    return target


def _glimpse(raw: bytes) -> tuple[str, str]:
    """Method and target of a request line that may be malformed, as far as they can be shown."""
    words = raw.partition(b"\r\n")[0].decode("ascii", "replace").split(" ")
    if len(words) != 3 or not words[1].isprintable():
        return "", ""
    shown = words[1].partition("?")[0].rpartition("@")[2]
    return words[0][:32], shown[:_LONGEST_SHOWN]
