"""Messages between ZMQ clients on this machine and the frames of the service's WebSocket. Pure.

A message is signed on the way from and to the clients, with the key of the connection file; the WebSocket needs none.
Its frames are those of the subprotocol `v1`: a count, so many offsets, then the channel's name, the parts of the
message and its buffers. The format: jupyter_server's page "WebSocket protocols".
"""

from __future__ import annotations

import hmac
import struct
from collections import OrderedDict
from collections.abc import Sequence
from itertools import pairwise
from typing import Final

import msgspec

V1: Final = "v1.kernel.websocket.jupyter.org"
DELIMITER: Final = b"<IDS|MSG>"
PARTS: Final = 4
MOST_CLIENTS: Final = 64
"""Clients whose replies find their way; the one that has been silent for longest is forgotten first."""


class Refused(Exception):
    """This is no message of a client that knows the key; the text says why."""


class MalformedFrame(Exception):
    """This frame holds no message; the text says why."""


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
        if not hmac.compare_digest(self._sign(message[:PARTS]), signature):
            raise Refused("the signature is wrong")
        session = _read_session(message[0])
        self._routes[session] = parts[0]
        self._routes.move_to_end(session)
        if len(self._routes) > MOST_CLIENTS:
            self._routes.popitem(last=False)
        return pack_v1(channel, message)

    def parts(self, frame: bytes | str) -> tuple[str, list[bytes]]:
        """The channel and the parts of what the service sent; none for a client that is not known here.

        Raises MalformedFrame.
        """
        channel, message, buffers = unpack_v1(frame)
        if channel == "iopub":
            route = channel.encode()
        elif (known := self._routes.get(_read_session(message[1]))) is not None:
            route = known
        else:
            return channel, []
        return channel, [route, DELIMITER, self._sign(message), *message, *buffers]

    def _sign(self, message: Sequence[bytes]) -> bytes:
        digest = self._key.copy()
        for part in message:
            digest.update(part)
        return digest.hexdigest().encode()


def _read_session(header: bytes) -> str:
    try:
        return msgspec.json.decode(header, type=_Names).session
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return ""


def pack_v1(channel: str, parts: Sequence[bytes]) -> bytes:
    """A frame of a message's parts and its buffers, as they are."""
    pieces = [channel.encode(), *parts]
    count = len(pieces) + 1
    offsets = [8 * (count + 1)]
    for piece in pieces:
        offsets.append(offsets[-1] + len(piece))
    return b"".join([struct.pack(f"<{count + 1}Q", count, *offsets), *pieces])


def unpack_v1(frame: bytes | str) -> tuple[str, list[bytes], list[bytes]]:
    """The channel, the parts of the message and its buffers; raises MalformedFrame."""
    if isinstance(frame, str):
        raise MalformedFrame("a text frame, where v1 has binary ones")
    count = int.from_bytes(frame[:8], "little")
    if count < PARTS + 2 or 8 * (count + 1) > len(frame):
        raise MalformedFrame("the number of offsets fits no message")
    offsets = struct.unpack_from(f"<{count}Q", frame, 8)
    rising = all(one <= other for one, other in pairwise(offsets))
    if offsets[0] != 8 * (count + 1) or not rising or offsets[-1] > len(frame):
        raise MalformedFrame("the offsets fit no message")
    name, *pieces = [frame[start:end] for start, end in pairwise(offsets)]
    return name.decode("utf-8", "replace"), pieces[:PARTS], pieces[PARTS:]
