"""Messages between ZMQ clients on this machine and the frames of the service's WebSocket. Pure.

A message is signed on the way from and to the clients, with the key of the connection file; the WebSocket needs none.
"""

from __future__ import annotations

import hmac
from collections import OrderedDict
from collections.abc import Sequence
from typing import Final

import msgspec

from kernel_gateway.faces.jupyter.framing import pack_v1, unpack_v1

DELIMITER: Final = b"<IDS|MSG>"
PARTS: Final = 4
MOST_CLIENTS: Final = 64
"""Clients whose replies find their way; whoever wrote longest ago is forgotten first."""


class Refused(Exception):
    """This is no message of a client that knows the key; the text says why."""


class _Names(msgspec.Struct):
    session: str = ""


class Translator:
    """Translates both ways, and remembers by which route each client's replies go back."""

    def __init__(self, key: bytes) -> None:
        self._key = hmac.new(key, digestmod="sha256")
        self._routes: OrderedDict[str, bytes] = OrderedDict()

    def frame(self, channel: str, parts: Sequence[bytes]) -> bytes:
        """The WebSocket frame for what a client sent: its route, the delimiter, a signature, the message."""
        try:
            start = parts.index(DELIMITER)
        except ValueError:
            raise Refused("no delimiter") from None
        signature, *message = parts[start + 1 :] or [b""]
        if start != 1 or len(message) < PARTS:
            raise Refused("a part is missing")
        if not hmac.compare_digest(self._signature(message[:PARTS]), signature):
            raise Refused("the signature is wrong")
        session = _session(message[0])
        self._routes[session] = parts[0]
        self._routes.move_to_end(session)
        if len(self._routes) > MOST_CLIENTS:
            self._routes.popitem(last=False)
        return pack_v1(channel, message)

    def parts(self, frame: bytes | str) -> tuple[str, list[bytes]]:
        """The channel and the parts of what the service sent; none for a client that is not known here.

        Raises MalformedFrame.
        """
        said = unpack_v1(frame)
        message = [said.header, said.parent_header, said.metadata, said.content]
        if said.channel == "iopub":
            route = said.channel.encode()
        elif (known := self._routes.get(_session(said.parent_header))) is not None:
            route = known
        else:
            return said.channel, []
        return said.channel, [route, DELIMITER, self._signature(message), *message, *said.buffers]

    def _signature(self, message: Sequence[bytes]) -> bytes:
        digest = self._key.copy()
        for part in message:
            digest.update(part)
        return digest.hexdigest().encode()


def _session(header: bytes) -> str:
    try:
        return msgspec.json.decode(header, type=_Names).session
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return ""
