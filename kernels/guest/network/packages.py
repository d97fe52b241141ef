"""The package index of a sandbox that reaches none: it refuses every package in one sentence, which says what has it.

It is asked as indexes are (`GET /simple/NAME/`). uv shows the sentence, which stands in the status line; pip shows
nothing that an index says, and with our help (`in_programs/pip_errors.py`) asks at `/why/NAME`.
"""

from __future__ import annotations

import asyncio
import re
import socket

from ..options import Options
from .egress import linger, read_head

_ASKED = re.compile(rb"(?:GET|HEAD) /(simple|why)/([A-Za-z0-9][A-Za-z0-9._-]{0,99})/? HTTP/1\.[01]\r?\n")

GONE = "410 "
"""With 403 and 404 uv takes it that it knows the reason, and keeps the sentence to itself."""


class MissingIndex:
    """Answers for the index. `elsewhere` says of a package which environments have it, once the service has."""

    def __init__(self, options: Options) -> None:
        self._mode = options.network
        self.elsewhere: dict[str, str] | None = None

    def describe(self, name: str) -> str:
        """Why a package cannot be installed, and where it is, in one sentence."""
        if not name:
            return f"Network mode {self._mode} reaches no package index"
        sentence = f"Network mode {self._mode} reaches no package index, so {name} cannot be installed here"
        if self.elsewhere is None:
            return sentence
        known = self.elsewhere.get(re.sub(r"[-_.]+", "-", name).lower())
        where = f"of this service's environments {known}" if known else "no environment of this service has it"
        return f"{sentence}: {where}"

    async def answer(self, inside: socket.socket) -> None:
        """Answer one request. Raises OSError, TimeoutError."""
        found = _ASKED.match(await read_head(inside))
        kind, name = (found[1].decode(), found[2].decode()) if found else ("", "")
        sentence = self.describe(name)
        body = sentence + "\n"
        head = (
            f"HTTP/1.1 {'200 OK' if kind == 'why' else GONE + sentence}\r\nContent-Type: text/plain\r\n"
            f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
        )
        await asyncio.get_running_loop().sock_sendall(inside, (head + body).encode("ascii", "replace"))
        await linger(inside)
