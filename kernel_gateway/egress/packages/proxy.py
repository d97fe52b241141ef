"""The package index of one session: each request is decided on, recorded, and answered from the index or the cache."""

from __future__ import annotations

import asyncio
import hashlib
import re
import ssl
from collections.abc import AsyncIterator
from typing import IO, Final
from urllib.parse import unquote, urlsplit

import h11

from kernel_gateway.egress.budget import Budget, EgressLimits, Meter, OverBudget
from kernel_gateway.egress.decision import Decision, Party, Record
from kernel_gateway.egress.dialling import Dialler
from kernel_gateway.egress.packages.page import METADATA, IndexFile, normalize, write_page
from kernel_gateway.egress.packages.source import IndexFailed, NotThere, PackageSource
from kernel_gateway.egress.packages.wheel_cache import Unfinished, WheelCache
from kernel_gateway.egress.policy import OperatorRules
from kernel_gateway.egress.resolver import Resolve
from kernel_gateway.egress.s3.client_side import BadRequest, ClientSide, Gone
from kernel_gateway.egress.stream import PIECE_BYTES
from kernels.environment import Endpoint, PackageIndex

LOOK_UPS: Final = 8
_ASKED: Final = re.compile(r"/(simple|why)/([A-Za-z0-9._-]{1,100})/?")
_FILE: Final = re.compile(r"/files/([a-z0-9-]{1,100})/([^/?#]{1,300})")
_HTML: Final = ("content-type", "text/html; charset=utf-8")
_TEXT: Final = ("content-type", "text/plain; charset=utf-8")
_BYTES: Final = ("content-type", "application/octet-stream")
_LONGEST_SHOWN: Final = 1200


class PackageIndexes:
    """Makes the package proxies of sessions, and holds the indexes and the cache; the service has one of these."""

    def __init__(self, operator: OperatorRules, resolve: Resolve, limits: EgressLimits, cache: WheelCache) -> None:
        self._operator, self._resolve, self._limits = operator, resolve, limits
        self._cache = cache
        self._sources: dict[PackageIndex, PackageSource] = {}

    def proxy(self, party: Party, index: PackageIndex, budget: Budget, record: Record) -> PackageProxy:
        """The proxy of one session."""
        source = self._sources.get(index)
        if source is None:
            rules = OperatorRules((*self._operator.private, _endpoint(index)))
            dialler = Dialler(rules, self._resolve, look_ups=LOOK_UPS)
            tls = ssl.create_default_context()
            source = self._sources[index] = PackageSource(index, dialler, self._limits, tls)
        return PackageProxy(party, source, self._cache, budget, record)

    async def aclose(self) -> None:
        """Close every connection to an index."""
        for source in self._sources.values():
            await source.aclose()
        self._sources.clear()


class PackageProxy:
    """Serves the connections of one session's socket for packages."""

    def __init__(self, party: Party, source: PackageSource, cache: WheelCache, budget: Budget, record: Record) -> None:
        self._party, self._source, self._cache = party, source, cache
        self._budget, self._record = budget, record

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection to its end; the caller counts it as open and closes the writer."""
        client = ClientSide(reader, writer, Meter(self._budget))
        try:
            while await self._serve_one(client):
                pass
            await client.linger()
        except Gone:
            return

    async def _serve_one(self, client: ClientSide) -> bool:
        """One request and its answer; False when the connection has had its last."""
        request: h11.Request | None = None
        try:
            request = await client.request()
            if request is None:
                return False
            self._budget.ask()
            await self._answer(request, client)
        except BadRequest as error:
            await self._refuse(client, request, error.status, f"request: {error}")
        except OverBudget as error:
            await self._refuse(client, request, 429, f"{error.word}: {error}")
        except NotThere as error:
            await self._refuse(client, request, 404, f"not_there: {error}", allowed=True)
        except IndexFailed as error:
            await self._refuse(client, request, 502, f"index: {error}", allowed=True)
        return client.proceed()

    async def _answer(self, request: h11.Request, client: ClientSide) -> None:
        if request.method not in {b"GET", b"HEAD"}:
            raise BadRequest(405, "a package index is only read from")
        path = request.target.decode("latin-1").partition("?")[0]
        page, file = _ASKED.fullmatch(path), _FILE.fullmatch(path)
        if page is not None and page[1] == "why":
            return await self._explain(page[2], client)
        if request.method == b"HEAD":  # an installer that looks for ranges, which there are none of
            return await client.refuse(200, [_BYTES, ("accept-ranges", "none")], b"", head=True)
        if page is not None:
            return await self._answer_page(page[2], client)
        if file is not None:
            return await self._answer_file(file[1], unquote(file[2]), client)
        raise NotThere("here are packages alone: ask for /simple/NAME/")

    async def _answer_page(self, asked: str, client: ClientSide) -> None:
        name = normalize(asked)
        if not name:
            raise NotThere(f"{asked} is no name of a package")
        files = await self._source.find_files(name)
        self._say(f"{name}/", "index: a page of the environment's package index")
        await client.answer(200, [_HTML], await asyncio.to_thread(write_page, name, files))

    async def _explain(self, asked: str, client: ClientSide) -> None:
        """In one sentence why a package cannot be had, for those who could not find out otherwise."""
        try:
            files = len(await self._source.find_files(normalize(asked) or "-"))
            sentence = f"The package index {self._source.host} has {files:,} files of {asked}, and none that fits"
        except NotThere:
            sentence = f"The package index {self._source.host}, which this environment installs from, has no {asked}"
        except IndexFailed as error:
            sentence = f"Nothing can be installed at the moment: {error}"
        await client.answer(200, [_TEXT], f"{sentence}\n".encode("ascii", "replace"))

    async def _answer_file(self, name: str, asked: str, client: ClientSide) -> None:
        """A file that stands in the package's page, and no other."""
        files = await self._source.find_files(name)
        found = files.get(asked)
        if found is None and asked.endswith(METADATA) and (whole := files.get(asked.removesuffix(METADATA))):
            found = whole.metadata_file()
        if found is None:
            raise NotThere(f"the page of {name} has no file {asked}")
        kept = await asyncio.to_thread(self._cache.open, found.sha256)
        reason = "cache: a file that was fetched from the index before" if kept else "index: a file of the index"
        self._say(f"{name}/{found.name}", reason)
        before = client.meter.received_bytes
        try:
            if kept is not None:
                await _send_kept(*kept, client)
            else:
                await self._fetch(found, client)
        finally:
            self._say(f"{name}/{found.name}", reason, client.meter.received_bytes - before)

    async def _fetch(self, file: IndexFile, client: ClientSide) -> None:
        """From the index to the sandbox, and into the cache. What has another hash is not sent to its end."""
        async with self._source.open(file.url) as opened:
            unfinished = await asyncio.to_thread(self._cache.begin, file.sha256)
            try:
                length = [] if opened.length is None else [("content-length", str(opened.length))]
                await client.start(200, [_BYTES, *length])
                last = await self._pass_on(file, opened.pieces, unfinished, client)
                if unfinished is not None and await asyncio.to_thread(unfinished.finish):
                    await asyncio.to_thread(self._cache.make_room)
                if last:
                    await client.send(last)
                await client.end()
            finally:
                if unfinished is not None:
                    await asyncio.shield(asyncio.to_thread(unfinished.discard))

    async def _pass_on(
        self, file: IndexFile, pieces: AsyncIterator[bytes], unfinished: Unfinished | None, client: ClientSide
    ) -> bytes:
        """Send all but the last piece, which is returned once the whole has the hash that the page says."""
        digest, last = hashlib.sha256(), b""
        async for piece in pieces:
            if last:
                await client.send(last)
            digest.update(piece)
            if unfinished is not None:
                await asyncio.to_thread(unfinished.write, piece)
            last = piece
        if file.sha256 and digest.hexdigest() != file.sha256:
            self._say(file.name, "hash: the file is not the one that the index's page speaks of", allowed=False)
            raise Gone("another file than the page speaks of")
        return last

    async def _refuse(
        self, client: ClientSide, request: h11.Request | None, status: int, reason: str, *, allowed: bool = False
    ) -> None:
        if not allowed:
            self._budget.refuse()
        method, target = ("", "") if request is None else (request.method.decode(), request.target.decode("latin-1"))
        self._say(target.partition("?")[0].lstrip("/"), reason, method=method[:32], allowed=allowed)
        if client.answering:
            raise Gone(reason)
        await client.refuse(status, [_TEXT], f"{reason}\n".encode("ascii", "replace"), head=method == "HEAD")

    def _say(
        self, what: str, reason: str, received: int | None = None, *, method: str = "GET", allowed: bool = True
    ) -> None:
        target = f"{self._source.index.url}{what}"[:_LONGEST_SHOWN]
        ended = received is not None
        self._record(
            Decision(
                self._party,
                "packages",
                method,
                target,
                None,
                allowed=allowed,
                reason=reason,
                ended=ended,
                received_bytes=received or 0,
            )
        )


async def _send_kept(file: IO[bytes], size: int, client: ClientSide) -> None:
    try:
        await client.start(200, [_BYTES, ("content-length", str(size))])
        while piece := await asyncio.to_thread(file.read, PIECE_BYTES):
            await client.send(piece)
        await client.end()
    finally:
        file.close()


def _endpoint(index: PackageIndex) -> Endpoint:
    """The index's own host and port."""
    parts = urlsplit(index.url)
    return Endpoint(parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80))
