"""A live kernel behind the Jupyter protocol, of any server: its clients, and what they cost its server."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import socket
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
from tornado.httpclient import HTTPRequest
from tornado.websocket import WebSocketClientConnection, websocket_connect

from kernel_gateway.faces.jupyter.framing import V1, pack_v1, unpack_v1

SECONDS = 600.0
FRAMINGS = ("legacy", "v1")


@dataclass(frozen=True)
class Server:
    """Where kernels are, and the process whose cost counts."""

    url: str
    token: str
    pid: int

    @property
    def headers(self) -> dict[str, str]:
        return {"Authorization": f"token {self.token}"}

    def ask(self, method: str, path: str, body: object = None) -> Any:
        with httpx.Client(headers=self.headers, timeout=SECONDS, trust_env=False) as http:
            answer = http.request(method, self.url + path, json=body).raise_for_status()
            return answer.json() if answer.content else None

    def cpu_seconds(self) -> float:
        """What the process has used, its own and the system's time for it."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def memory_bytes(self, row: str) -> int:
        rows = Path(f"/proc/{self.pid}/status").read_text().splitlines()
        return next(int(one.split()[1]) * 1024 for one in rows if one.startswith(f"{row}:"))

    def forget_peak(self) -> None:
        """Reset VmHWM."""
        Path(f"/proc/{self.pid}/clear_refs").write_text("5")


class Client:
    """One attached client: reads all that comes."""

    def __init__(self, connection: WebSocketClientConnection, framing: str) -> None:
        self._connection = connection
        self._framing = framing

    @classmethod
    async def attach(cls, server: Server, kernel: str, framing: str) -> Client:
        address = f"ws{server.url.removeprefix('http')}/api/kernels/{kernel}/channels?session_id={uuid.uuid4().hex}"
        offered = [V1] if framing == "v1" else None
        request = HTTPRequest(address, headers=server.headers, request_timeout=SECONDS)
        return cls(await websocket_connect(request, subprotocols=offered, max_message_size=1 << 28), framing)

    async def send(self, code: str) -> str:
        """Have code run; the id of the request."""
        request = execute_request(code)
        parts = [json.dumps(request[name]).encode() for name in ("header", "parent_header", "metadata", "content")]
        frame = pack_v1("shell", parts) if self._framing == "v1" else json.dumps(request)
        await self._connection.write_message(frame, binary=self._framing == "v1")
        return str(request["header"]["msg_id"])

    async def until_idle(self, asked: str) -> int:
        """Read until that request is done; how many displays came."""
        displays = 0
        async with asyncio.timeout(SECONDS):
            while True:
                frame = await self._connection.read_message()
                if frame is None:
                    raise ConnectionError("the connection was closed")
                # As little work as can be: the reader shares the processors with what is measured.
                displays += (b"display_data" if isinstance(frame, bytes) else "display_data") in frame[:400]  # type: ignore[operator]
                if len(frame) < 4000 and self._is_idle(frame, asked):
                    return displays

    def close(self) -> None:
        self._connection.close()

    @staticmethod
    def _is_idle(frame: bytes | str, asked: str) -> bool:
        if isinstance(frame, bytes):
            said = unpack_v1(frame)
            parent, content = json.loads(said.parent_header), json.loads(said.content)
        else:
            heard = json.loads(frame)
            parent, content = heard["parent_header"], heard["content"]
        return parent.get("msg_id") == asked and content.get("execution_state") == "idle"


def execute_request(code: str) -> dict[str, Any]:
    """A legacy message that asks for code to be run."""
    header = {"msg_id": uuid.uuid4().hex, "msg_type": "execute_request", "session": uuid.uuid4().hex}
    header |= {"username": "person", "version": "5.3", "date": "2026-01-01T00:00:00.000000Z"}
    content = {"code": code, "silent": False, "store_history": True, "user_expressions": {}, "allow_stdin": False}
    return {"header": header, "parent_header": {}, "metadata": {}, "content": content, "channel": "shell"}


def never_reading(server: Server, kernel: str, code: str) -> socket.socket:
    """A client that has code run and reads nothing of it, made of a plain socket with a small buffer."""
    place = urlsplit(server.url)
    client = socket.create_connection((place.hostname, place.port), timeout=60)
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    key = base64.b64encode(os.urandom(16)).decode()
    head = [f"GET /api/kernels/{kernel}/channels?session_id={uuid.uuid4().hex} HTTP/1.1", f"Host: {place.netloc}"]
    head += ["Upgrade: websocket", "Connection: Upgrade", f"Sec-WebSocket-Key: {key}", "Sec-WebSocket-Version: 13"]
    client.sendall("\r\n".join([*head, f"Authorization: token {server.token}", "", ""]).encode())
    answer = b""
    while b"\r\n\r\n" not in answer:
        answer += client.recv(1)
    assert answer.startswith(b"HTTP/1.1 101"), answer
    payload = json.dumps(execute_request(code)).encode()
    mask = os.urandom(4)
    masked = bytes(byte ^ mask[place % 4] for place, byte in enumerate(payload))
    client.sendall(b"\x81" + bytes([0x80 | 126]) + len(payload).to_bytes(2, "big") + mask + masked)
    return client
