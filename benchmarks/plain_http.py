"""HTTP over one kept-alive connection, with little work: clients share the processors with what is measured.

A pool of HTTPX with a hundred connections looks through all of them for each request: of a burst of a hundred sessions
that was most of what the burst took.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

HEAD_END = b"\r\n\r\n"


class Refused(RuntimeError):
    """The server's answer was none of success."""

    def __init__(self, status: int, answer: bytes) -> None:
        super().__init__(f"{status}: {answer.decode(errors='replace')}")
        self.status = status


class Connection:
    """One request after the other; `connect` makes it."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, head: str) -> None:
        self._reader = reader
        self._writer = writer
        self._head = head

    @classmethod
    async def connect(cls, url: str, headers: Mapping[str, str]) -> Connection:
        """To a server of this host; the headers go with each request."""
        place = urlsplit(url)
        lines = [f"Host: {place.netloc}", *(f"{name}: {value}" for name, value in headers.items())]
        return cls(*await asyncio.open_connection(place.hostname, place.port), "\r\n".join(lines))

    async def ask(self, method: str, path: str, body: object = None) -> Any:
        """The JSON of the answer, which says its length; raises Refused for any status but 2xx."""
        content = b"" if body is None else json.dumps(body).encode()
        kind = "" if body is None else "Content-Type: application/json\r\n"
        head = f"{method} {path} HTTP/1.1\r\n{self._head}\r\n{kind}Content-Length: {len(content)}\r\n\r\n"
        self._writer.write(head.encode() + content)
        answered = await self._reader.readuntil(HEAD_END)
        size = next((int(row[15:]) for row in answered.split(b"\r\n") if row[:15].lower() == b"content-length:"), 0)
        answer = await self._reader.readexactly(size)
        status = int(answered.split(b" ", 2)[1])
        if not 200 <= status < 300:
            raise Refused(status, answer)
        return json.loads(answer) if answer else None

    async def aclose(self) -> None:
        self._writer.close()
        await self._writer.wait_closed()
