"""A plain Jupyter client: HTTP by httpx, the socket by websockets, and the two framings written down once more."""

from __future__ import annotations

import json
import struct
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from typing import Any

import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect

V1 = "v1.kernel.websocket.jupyter.org"
WAIT_SECONDS = 120


def packed(channel: str, parts: list[bytes]) -> bytes:
    pieces = [channel.encode(), *parts]
    offsets = [8 * (len(pieces) + 2)]
    for piece in pieces:
        offsets.append(offsets[-1] + len(piece))
    return struct.pack(f"<{len(offsets) + 1}Q", len(offsets), *offsets) + b"".join(pieces)


def unpacked(frame: bytes) -> dict[str, Any]:
    (count,) = struct.unpack_from("<Q", frame)
    offsets = struct.unpack_from(f"<{count}Q", frame, 8)
    channel, *parts = [frame[a:b] for a, b in pairwise(offsets)]
    names = ("header", "parent_header", "metadata", "content")
    message = {name: json.loads(part) for name, part in zip(names, parts[:4], strict=True)}
    return {**message, "channel": channel.decode(), "buffers": parts[4:]}


class Wire:
    """One socket. `v1` says in which framing; messages are dicts, with the channel in them."""

    def __init__(self, socket: ClientConnection, session: str, *, v1: bool) -> None:
        self.socket = socket
        self.session = session
        self.v1 = v1

    def send(self, channel: str, msg_type: str, content: dict[str, Any], buffers: list[bytes] | None = None) -> str:
        msg_id = uuid.uuid4().hex
        header = {"msg_id": msg_id, "msg_type": msg_type, "session": self.session, "username": "someone"}
        header |= {"date": "2026-01-01T00:00:00.000000Z", "version": "5.3"}
        if self.v1:
            parts = [json.dumps(each).encode() for each in (header, {}, {}, content)]
            self.socket.send(packed(channel, [*parts, *(buffers or [])]))
        else:
            told = {"channel": channel, "header": header, "parent_header": {}, "metadata": {}, "content": content}
            self.socket.send(json.dumps(told))
        return msg_id

    def execute(self, code: str, **more: Any) -> str:
        return self.send("shell", "execute_request", {"code": code, "silent": False, "allow_stdin": False, **more})

    def receive(self, timeout: float = WAIT_SECONDS) -> dict[str, Any]:
        frame = self.socket.recv(timeout)
        if self.v1:
            assert isinstance(frame, bytes)
            return unpacked(frame)
        assert isinstance(frame, str)
        found: dict[str, Any] = json.loads(frame)
        return found

    def until(self, wanted: Callable[[dict[str, Any]], bool]) -> list[dict[str, Any]]:
        """Everything up to the first message that is wanted, that one too."""
        found = [self.receive()]
        while not wanted(found[-1]):
            found.append(self.receive())
        return found

    def until_shown(self, text: str) -> list[dict[str, Any]]:
        """Everything up to the message with the end of this text on stdout; a print may come in several messages."""
        found: list[dict[str, Any]] = []
        while text not in text_of(found):
            found.append(self.receive())
        return found

    def finished(self, msg_id: str) -> list[dict[str, Any]]:
        """What belongs to a request, up to both its reply and the end of its output, which come in any order."""
        found: list[dict[str, Any]] = []
        replied = idle = False
        while not (replied and idle):
            message = self.receive()
            if message["parent_header"].get("msg_id") != msg_id:
                continue
            found.append(message)
            replied = replied or message["header"]["msg_type"].endswith("_reply")
            idle = idle or (is_status(message) and message["content"]["execution_state"] == "idle")
        return found

    def run(self, code: str, **more: Any) -> list[dict[str, Any]]:
        return self.finished(self.execute(code, **more))

    def closed(self, timeout: float = WAIT_SECONDS) -> tuple[int | None, str]:
        """Read on until the other side closes; its code and reason."""
        with pytest.raises(ConnectionClosed) as closed:
            self._read_on(timeout)
        frame = closed.value.rcvd
        return (frame.code, frame.reason) if frame is not None else (None, "")

    def _read_on(self, timeout: float) -> None:
        while True:
            self.socket.recv(timeout)


def is_status(message: dict[str, Any]) -> bool:
    return bool(message["header"]["msg_type"] == "status")


def text_of(messages: list[dict[str, Any]], name: str = "stdout") -> str:
    streams = (each["content"] for each in messages if each["header"]["msg_type"] == "stream")
    return "".join(content["text"] for content in streams if content["name"] == name)


def result_of(messages: list[dict[str, Any]]) -> str:
    (found,) = [each for each in messages if each["header"]["msg_type"] == "execute_result"]
    return str(found["content"]["data"]["text/plain"])


def reply_of(messages: list[dict[str, Any]]) -> dict[str, Any]:
    (found,) = [each for each in messages if each["header"]["msg_type"].endswith("_reply")]
    return found


@contextmanager
def wire(
    url: str,
    kernel_id: str,
    token: str,
    *,
    v1: bool = True,
    session: str | None = None,
    in_query: bool = False,
    scheme: str = "token",
    offered: list[str] | None = None,
    origin: str | None = None,
) -> Iterator[Wire]:
    """An open socket; with `in_query` the token is in the address alone."""
    session = session or uuid.uuid4().hex
    address = f"{url.replace('http', 'ws', 1)}/api/kernels/{kernel_id}/channels?session_id={session}"
    headers = {} if in_query else {"Authorization": f"{scheme} {token}"}
    with connect(
        address + (f"&token={token}" if in_query else ""),
        additional_headers={**headers, **({"Origin": origin} if origin else {})},
        subprotocols=offered if offered is not None else ([V1] if v1 else None),  # type: ignore[arg-type]
        compression="deflate",
        max_size=2**27,
        open_timeout=WAIT_SECONDS,
        close_timeout=10,
        proxy=None,
    ) as socket:
        yield Wire(socket, session, v1=v1)
