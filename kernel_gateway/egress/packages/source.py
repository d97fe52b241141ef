"""One package index of the operator's, as the service asks it: pages that are remembered for a while, and files.

Where an index is, is decided as for every other way out: names are resolved once, each address is judged, and what was
judged is connected to. The index's own host and port count as declared by the operator; files that its pages place
elsewhere must be public. Its credentials go to its own origin alone.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final
from urllib.parse import urljoin, urlsplit

import httpcore
import msgspec

from kernel_gateway.egress.budget import EgressLimits
from kernel_gateway.egress.dialling import Dialler
from kernel_gateway.egress.packages.page import ACCEPT, BadPage, IndexFile, parse_page
from kernel_gateway.egress.refusal import Refused
from kernel_gateway.egress.target import BadTarget, Target, parse_host
from kernels.environment import PackageIndex

PAGE_SECONDS: Final = 300
"""How long a page is not asked for again."""
MOST_PAGES: Final = 500
MOST_PAGE_BYTES: Final = 32 * 1024 * 1024
MOST_REDIRECTS: Final = 3
_CONNECTIONS: Final = 32
_REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})

Files = Mapping[str, IndexFile]


class IndexFailed(Exception):
    """The index did not give what was asked of it; the message is a sentence for people."""


class NotThere(IndexFailed):
    """The index has no such thing."""


class _Remembered(msgspec.Struct, frozen=True):
    files: Files
    until: float


class PackageSource:
    """One index, for all sessions that may ask it."""

    def __init__(
        self,
        index: PackageIndex,
        dialler: Dialler,
        limits: EgressLimits,
        tls: Any,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.index = index
        self.host = urlsplit(index.url).netloc
        self._origin = _origin(index.url)
        self._limits, self._clock = limits, clock
        self._dialler = dialler
        self._pages: dict[str, _Remembered] = {}
        self._http = httpcore.AsyncConnectionPool(
            tls, max_connections=_CONNECTIONS, keepalive_expiry=30, network_backend=_Judged(dialler)
        )

    async def aclose(self) -> None:
        """Close its connections."""
        await self._http.aclose()
        await self._dialler.aclose()

    async def find_files(self, name: str) -> Files:
        """The files of a package by its normalised name; raises `IndexFailed`, `NotThere`.

        While the index fails a page that was remembered once goes on being good.
        """
        known = self._pages.get(name)
        if known is not None and self._clock() < known.until:
            return known.files
        try:
            files = await self._fetch_page(name)
        except NotThere:
            self._pages.pop(name, None)
            raise
        except IndexFailed:
            if known is None:
                raise
            files = known.files
        self._pages.pop(name, None)
        while len(self._pages) >= MOST_PAGES:
            del self._pages[next(iter(self._pages))]
        self._pages[name] = _Remembered(files, self._clock() + PAGE_SECONDS)
        return files

    async def _fetch_page(self, name: str) -> Files:
        url, body = f"{self.index.url}{name}/", bytearray()
        async with self.open(url, ACCEPT) as response:
            async for piece in response.pieces:
                body += piece
                if len(body) > MOST_PAGE_BYTES:
                    raise IndexFailed(f"the page of {name} is larger than {MOST_PAGE_BYTES:,} bytes")
        try:
            return await asyncio.to_thread(parse_page, bytes(body), response.content_type, response.url)
        except BadPage as error:
            raise IndexFailed(str(error)) from None

    @asynccontextmanager
    async def open(self, url: str, accept: str = "*/*") -> AsyncIterator[Opened]:
        """What is at an address, to be read; follows redirections. Raises `IndexFailed`, `NotThere`."""
        limits = self._limits
        timeouts = {"connect": limits.connect_seconds, "pool": limits.connect_seconds, "read": limits.idle_seconds}
        try:
            for _ in range(MOST_REDIRECTS + 1):
                self._require_tls(url)
                async with self._http.stream(
                    "GET",
                    url,
                    headers=self._headers(url, accept),
                    extensions={"timeout": {**timeouts, "write": limits.idle_seconds}},
                ) as response:
                    if response.status not in _REDIRECTS:
                        self._require_content(response.status, url)
                        yield Opened(url, response)
                        return
                    url = urljoin(url, _find(response.headers, b"location"))
            raise IndexFailed(f"the index {self.host} redirects more than {MOST_REDIRECTS} times")
        except Refused as refused:
            raise IndexFailed(f"the index {self.host} cannot be reached: {refused}") from None
        except (httpcore.NetworkError, httpcore.TimeoutException, httpcore.ProtocolError) as error:
            raise IndexFailed(f"the index {self.host} cannot be reached: {error or type(error).__name__}") from None
        except (httpcore.UnsupportedProtocol, ValueError) as error:
            raise IndexFailed(f"the index {self.host} names an address that cannot be asked: {error}") from None

    def _headers(self, url: str, accept: str) -> list[tuple[str, str]]:
        known = [("accept", accept), ("accept-encoding", "identity"), ("user-agent", "sandcell")]
        authorization = self.index.authorization
        if authorization and _origin(url) == self._origin:
            return [*known, ("authorization", authorization)]
        return known

    def _require_tls(self, url: str) -> None:
        """An index that is asked over TLS leads nowhere without it: its pages and hashes would be anybody's."""
        if self._origin[0] == "https" and not url.startswith("https://"):
            raise IndexFailed(f"the index {self.host} leads to {urlsplit(url).netloc[:255]} without TLS")

    def _require_content(self, status: int, url: str) -> None:
        if status in {404, 410}:
            raise NotThere(f"the index {self.host} has nothing at {urlsplit(url).path}")
        if status != 200:
            raise IndexFailed(f"the index {self.host} answers with status {status}")


class Opened:
    """An answer of the index whose body is still to be read."""

    def __init__(self, url: str, response: httpcore.Response) -> None:
        self.url = url
        self.content_type = _find(response.headers, b"content-type")
        length = _find(response.headers, b"content-length")
        self.length = int(length) if length.isascii() and length.isdigit() and len(length) < 16 else None
        self.pieces = response.aiter_stream()


class _Judged(httpcore.AsyncNetworkBackend):
    """Connects to nothing but addresses that were judged, each name looked up once."""

    def __init__(self, dialler: Dialler) -> None:
        self._dialler = dialler
        self._below = httpcore.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        """Called by the pool for each connection."""
        try:
            name, address = parse_host(f"[{host}]" if ":" in host else host)
        except BadTarget as error:
            raise httpcore.ConnectError(str(error)) from None
        routes = await self._dialler.routes(Target(name, port, address))
        for route in routes[:-1]:
            try:
                return await self._below.connect_tcp(str(route.address), port, timeout, local_address, socket_options)
            except (httpcore.ConnectError, httpcore.ConnectTimeout):
                continue
        last = str(routes[-1].address)
        return await self._below.connect_tcp(last, port, timeout, local_address, socket_options)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


def _origin(url: str) -> tuple[str, str, int]:
    parts = urlsplit(url)
    return parts.scheme, (parts.hostname or "").lower(), parts.port or (443 if parts.scheme == "https" else 80)


def _find(headers: Iterable[tuple[bytes, bytes]], name: bytes) -> str:
    return next((value.decode("latin-1").strip() for key, value in headers if key.lower() == name), "")
