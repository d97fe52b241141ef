"""The audit log to an HTTP server: POST of JSON lines in batches; a status from 200 to 299 says that they are kept."""

from __future__ import annotations

import ssl
from collections.abc import Sequence
from typing import Final

import httpx

from kernel_gateway.services.audit.line import Entry

_STEP_SECONDS: Final = 20.0
"""Time for each step of a request; the feed bounds the whole."""
_TOO_LARGE: Final = 413


class HttpSink:
    """One connection, kept as long as the server keeps it."""

    name = "http"
    of_host = False

    def __init__(self, url: str, token: str) -> None:
        self._url = url
        self._headers = {"Content-Type": "application/x-ndjson", "User-Agent": "sandcell"}
        if token:
            self._headers["Authorization"] = f"Bearer {token}"
        self._client: httpx.AsyncClient | None = None

    async def open(self) -> None:
        """A server that is away keeps no service from starting."""

    async def deliver(self, entries: Sequence[Entry]) -> None:
        """A server that takes no batch of this size gets it in halves."""
        status = await self._post(b"".join(each.line for each in entries))
        if status == _TOO_LARGE and len(entries) > 1:
            half = len(entries) // 2
            await self.deliver(entries[:half])
            await self.deliver(entries[half:])
        elif not httpx.codes.is_success(status):
            raise OSError(f"the server answered with {status}")

    async def close(self) -> None:
        if self._client is not None:
            await self._client.aclose()
            self._client = None

    async def _post(self, body: bytes) -> int:
        if self._client is None:
            verify = ssl.create_default_context() if self._url.startswith("https:") else True
            self._client = httpx.AsyncClient(verify=verify, timeout=_STEP_SECONDS, trust_env=False)
        try:
            # What it says besides its status is not read: it could be without end.
            async with self._client.stream("POST", self._url, content=body, headers=self._headers) as answer:
                return answer.status_code
        except httpx.HTTPError as error:
            raise OSError(f"{type(error).__name__}: {error}") from error
