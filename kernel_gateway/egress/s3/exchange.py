"""One allowed request carried to S3 and its answer carried back. Bodies stream; no redirection is followed."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

import httpcore
import structlog

from kernel_gateway.egress.budget import EgressLimits
from kernel_gateway.egress.s3 import answers, documents
from kernel_gateway.egress.s3.answers import Trouble
from kernel_gateway.egress.s3.client_side import ClientSide, Gone
from kernel_gateway.egress.s3.documents import BadDocument
from kernel_gateway.egress.s3.policy import Allowed
from kernel_gateway.egress.s3.scope import Scope, SigningFailed

if TYPE_CHECKING:
    from kernel_gateway.egress.s3.signing import Backend

XML: Final = ("content-type", "application/xml")
_UNREACHED: Final = Trouble(503, "ServiceUnavailable", "Execution role: upstream: S3 was not reached; try again")
_UNSIGNED: Final = Trouble(503, "ServiceUnavailable", "Execution role: upstream: the host has no valid credentials now")
_UNREADABLE: Final = Trouble(502, "InternalError", "Execution role: upstream: S3's answer was not understood")
log = structlog.get_logger()


class Failed(Exception):
    """The request was allowed and not done; `trouble` is what to answer when nothing has been answered yet."""

    def __init__(self, trouble: Trouble) -> None:
        super().__init__(trouble.message)
        self.trouble = trouble


class Exchange:
    """Carries one request. `document` is its body when the operation takes one that was read and rewritten."""

    def __init__(self, asked: Allowed, client: ClientSide, backend: Backend, scope: Scope) -> None:
        self._asked, self._operation = asked, asked.operation
        self._client, self._backend, self._scope = client, backend, scope

    async def run(self, upstream: httpcore.AsyncConnectionPool, document: bytes | None, limits: EgressLimits) -> None:
        """Do it. Raises `Failed`, `Gone`, and what reading and writing the client's side raises."""
        headers = await self._sign(document)
        target = self._asked.path + (f"?{self._asked.query_string}" if self._asked.query else "")
        self._client.meter.send(len(target) + sum(len(name) + len(value) for name, value in self._asked.headers))
        try:
            async with upstream.stream(
                self._operation.method.encode(),
                _make_url(self._backend.origin, target),
                headers=[(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers],
                content=self._choose_content(document),
                extensions={"timeout": _make_timeouts(limits)},
            ) as response:
                await self._pass_back(response)
        except (httpcore.NetworkError, httpcore.TimeoutException, httpcore.ProtocolError) as error:
            raise self._note_failure(_UNREACHED, error) from None
        except BadDocument as error:
            raise self._note_failure(_UNREADABLE, error) from None

    async def _sign(self, document: bytes | None) -> list[tuple[str, str]]:
        headers, payload_hash = [*self._asked.headers, ("accept-encoding", "identity")], self._asked.payload_hash
        if document is not None:
            described, payload_hash = _describe_body(document)
            headers += described
        elif self._operation.body == "bytes":
            headers.append(("content-length", str(self._asked.length)))
        elif self._operation.method in {"PUT", "POST"}:
            headers.append(("content-length", "0"))
        try:
            return await self._backend.sign(
                self._operation.method, self._asked.path, self._asked.query_string, headers, payload_hash
            )
        except SigningFailed as error:
            raise self._note_failure(_UNSIGNED, error) from None

    def _choose_content(self, document: bytes | None) -> bytes | AsyncIterator[bytes] | None:
        if document is not None:
            return document
        return self._client.body() if self._operation.body == "bytes" else None

    async def _pass_back(self, response: httpcore.Response) -> None:
        plain = self._operation.answer == "object" and response.status < 300
        if plain or response.status in {204, 304} or self._operation.method == "HEAD":
            await self._pass_object(response)
        elif response.status >= 300:
            await self._pass_trouble(response)
        elif self._operation.answer == "slow":
            await self._pass_slowly(response)
        else:
            body = await _read_whole(response, answers.MOST_DOCUMENT_BYTES)
            headers = answers.select_headers(response.headers, framed=False)
            listing = self._operation.answer == "listing"
            written = documents.DECLARATION + answers.clean(body, self._scope, listing=listing) if body else b""
            await self._client.answer(response.status, [*headers, XML], written)

    async def _pass_object(self, response: httpcore.Response) -> None:
        """As it comes; a head that speaks of trouble keeps its status, and a redirection becomes a refusal."""
        status, headers = response.status, answers.select_headers(response.headers, framed=True)
        if status >= 300 and status != 304:
            status, headers = answers.describe_trouble(status, b"").status, [("content-length", "0")]
        await self._client.start(status, headers)
        async for piece in response.aiter_stream():
            await self._client.send(piece)
        await self._client.end()

    async def _pass_trouble(self, response: httpcore.Response) -> None:
        told = answers.describe_trouble(response.status, await _read_whole(response, answers.MOST_ERROR_BYTES))
        if told.message.startswith("Execution role:"):
            log.warning("s3_role_refused", operation=self._operation.name, status=response.status, told=told.message)
        headers = answers.select_headers(response.headers, framed=False)
        await self._client.answer(told.status, [*headers, XML], told.document)

    async def _pass_slowly(self, response: httpcore.Response) -> None:
        """S3 sends spaces while it works on some requests, and its verdict after them: so that no client gives up."""
        await self._client.start(response.status, [*answers.select_headers(response.headers, framed=False), XML])
        await self._client.send(documents.DECLARATION)
        body = bytearray()
        async for piece in response.aiter_stream():
            if piece.isspace():
                await self._client.send(b" ")
            body += piece
            if len(body) > answers.MOST_DOCUMENT_BYTES:
                raise BadDocument("longer than any that S3 sends")
        await self._client.send(answers.clean(bytes(body.lstrip()), self._scope, listing=False))
        await self._client.end()

    def _note_failure(self, trouble: Trouble, error: Exception) -> Exception:
        """What to raise: once the client has a part of an answer, its connection can only be cut."""
        log.warning(
            "s3_role_failed", operation=self._operation.name, error=type(error).__name__, detail=str(error)[:200]
        )
        return Gone(str(error)) if self._client.answering else Failed(trouble)


async def _read_whole(response: httpcore.Response, most_bytes: int) -> bytes:
    body = bytearray()
    async for piece in response.aiter_stream():
        body += piece
        if len(body) > most_bytes:
            raise BadDocument(f"longer than {most_bytes} bytes")
    return bytes(body)


def _make_url(origin: str, target: str) -> httpcore.URL:
    parts = urlsplit(origin)
    return httpcore.URL(scheme=parts.scheme, host=parts.hostname or "", port=parts.port, target=target)


def _make_timeouts(limits: EgressLimits) -> dict[str, float]:
    idle, connect = limits.idle_seconds, limits.connect_seconds
    return {"connect": connect, "pool": connect, "read": idle, "write": idle}


def _describe_body(body: bytes) -> tuple[list[tuple[str, str]], str]:
    """What a request says of a body that is wholly here, and its hash for the signature."""
    checksum = base64.b64encode(hashlib.md5(body, usedforsecurity=False).digest()).decode()
    return [("content-length", str(len(body))), ("content-md5", checksum)], hashlib.sha256(body).hexdigest()
