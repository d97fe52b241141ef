"""The S3 endpoint of one session: each request is decided on, recorded, and carried to S3 or refused as S3 refuses."""

from __future__ import annotations

import asyncio
import importlib
from typing import TYPE_CHECKING, Final

import h11
import httpcore

from kernel_gateway.egress.budget import Budget, Meter, OverBudget
from kernel_gateway.egress.decision import Decision, Party, Record
from kernel_gateway.egress.s3 import documents
from kernel_gateway.egress.s3.answers import Trouble
from kernel_gateway.egress.s3.client_side import BadRequest, ClientSide, Gone
from kernel_gateway.egress.s3.exchange import XML, Exchange, Failed
from kernel_gateway.egress.s3.policy import Allowed, decide
from kernel_gateway.egress.s3.refusal import Refused
from kernel_gateway.egress.s3.scope import Scope
from kernels.environment import ExecutionRole

if TYPE_CHECKING:
    from kernel_gateway.egress.s3.signing import Backend, Credentialed

MOST_DOCUMENTS: Final = 2
_KEPT_OPEN_SECONDS: Final = 15
_LONGEST_SHOWN: Final = 1200


class SigningBackends:
    """Makes the signing proxies of sessions, and holds the credentials; the service has one of these."""

    def __init__(self) -> None:
        self._credentialed: Credentialed | None = None

    async def proxy(self, party: Party, role: ExecutionRole, budget: Budget, record: Record) -> S3Proxy:
        """The proxy of one session; raises `RoleUnusable` when the role cannot be served."""
        if self._credentialed is None:
            signing = await asyncio.to_thread(importlib.import_module, "kernel_gateway.egress.s3.signing")
            self._credentialed = self._credentialed or signing.Credentialed()
        return S3Proxy(party, Scope.of(role), await self._credentialed.backend(role), budget, record)

    def close(self) -> None:
        if self._credentialed is not None:
            self._credentialed.close()


class S3Proxy:
    """Serves the connections of one session's S3 socket."""

    def __init__(self, party: Party, scope: Scope, backend: Backend, budget: Budget, record: Record) -> None:
        self._party, self._scope, self._backend = party, scope, backend
        self._budget, self._record = budget, record
        self._documents = asyncio.Semaphore(MOST_DOCUMENTS)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection to its end; the caller counts it as open and closes the writer."""
        client = ClientSide(reader, writer, Meter(self._budget))
        try:
            async with self._open_upstream() as upstream:
                while await self._serve_one(client, upstream):
                    pass
            await client.linger()
        except Gone:
            return

    def _open_upstream(self) -> httpcore.AsyncConnectionPool:
        """One connection to S3 for one from the sandbox: no two sessions ever share one."""
        tls = self._backend.tls
        return httpcore.AsyncConnectionPool(tls, max_connections=1, keepalive_expiry=_KEPT_OPEN_SECONDS)

    async def _serve_one(self, client: ClientSide, upstream: httpcore.AsyncConnectionPool) -> bool:
        """One request and its answer; False when the connection has had its last."""
        request = None
        try:
            request = await client.request()
            if request is None:
                return False
            await self._answer(request, client, upstream)
        except BadRequest as error:
            await self._refuse(client, request, Trouble(error.status, "InvalidRequest", f"request: {error}"))
        except Refused as error:
            await self._refuse(client, request, Trouble(403, "AccessDenied", error.reason))
        except OverBudget as error:
            status, code = (503, "SlowDown") if error.word == "connections" else (403, "AccessDenied")
            await self._refuse(client, request, Trouble(status, code, f"{error.word}: {error}"))
        except Failed as error:
            await self._tell(client, request, error.trouble)
        return client.proceed()

    async def _answer(self, request: h11.Request, client: ClientSide, upstream: httpcore.AsyncConnectionPool) -> None:
        self._budget.ask()
        asked = self._decide(request)
        if asked.operation.body != "document":
            self._say(asked, f"role: {asked.operation.name}")
            return await self._carry(asked, client, upstream, None)
        async with self._documents:
            document = await self._read_document(asked, client)
            self._say(asked, f"role: {asked.operation.name}")
            return await self._carry(asked, client, upstream, document)

    def _decide(self, request: h11.Request) -> Allowed:
        headers = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in request.headers]
        return decide(request.method.decode(), request.target.decode("latin-1"), headers, self._scope)

    async def _read_document(self, asked: Allowed, client: ClientSide) -> bytes:
        """The body of an operation that takes XML, checked and rewritten off the loop: it may take a while."""
        if asked.length > documents.MOST_REQUEST_BYTES:
            raise Refused("document", f"the body may have {documents.MOST_REQUEST_BYTES} bytes")
        body = b"".join([piece async for piece in client.body()])
        if asked.operation.name == "DeleteObjects":
            return await asyncio.to_thread(documents.read_deletion, body, self._scope)
        return await asyncio.to_thread(documents.read_completion, body)

    async def _carry(
        self, asked: Allowed, client: ClientSide, upstream: httpcore.AsyncConnectionPool, document: bytes | None
    ) -> None:
        """Do what is allowed; a transfer of an object's bytes is recorded again when it is over."""
        if asked.operation.answer == "local":
            return await self._answer_locally(asked, client)
        sent, received = client.meter.sent_bytes, client.meter.received_bytes
        try:
            await Exchange(asked, client, self._backend, self._scope).run(upstream, document, self._budget.limits)
        finally:
            if asked.operation.moves:
                moved = client.meter.sent_bytes - sent, client.meter.received_bytes - received
                self._say(asked, f"role: {asked.operation.name}", moved)

    async def _answer_locally(self, asked: Allowed, client: ClientSide) -> None:
        """What is asked of the bucket as such: the role's word stands for it, S3 is not asked."""
        region = self._scope.region
        if asked.operation.name == "HeadBucket":
            return await client.answer(200, [("x-amz-bucket-region", region)], b"")
        return await client.answer(200, [XML], documents.make_location(region))

    async def _refuse(self, client: ClientSide, request: h11.Request | None, trouble: Trouble) -> None:
        self._budget.refuse()
        method, target = ("", "") if request is None else (request.method.decode(), request.target.decode("latin-1"))
        shown = f"s3:/{target.partition('?')[0]}"[:_LONGEST_SHOWN]
        self._record(Decision(self._party, "s3", method[:32], shown, None, allowed=False, reason=trouble.message))
        told = Trouble(trouble.status, trouble.code, f"Execution role: {trouble.message}")
        await self._tell(client, request, told)

    async def _tell(self, client: ClientSide, request: h11.Request | None, trouble: Trouble) -> None:
        """Answer with an error; when a part of an answer is out already, the connection can only be cut."""
        if client.answering:
            raise Gone(trouble.message)
        head = request is not None and request.method == b"HEAD"
        await client.refuse(trouble.status, [XML, _make_reason(trouble)], trouble.document, head=head)

    def _say(self, asked: Allowed, reason: str, moved: tuple[int, int] | None = None) -> None:
        target = f"s3://{asked.bucket}/{asked.key}"[:_LONGEST_SHOWN]
        sent, received = moved or (0, 0)
        self._record(
            Decision(
                self._party,
                "s3",
                asked.operation.method,
                target,
                None,
                allowed=True,
                reason=reason,
                ended=moved is not None,
                sent_bytes=sent,
                received_bytes=received,
            )
        )


def _make_reason(trouble: Trouble) -> tuple[str, str]:
    """The message as a header too: an answer to HEAD has no body to say it in."""
    text = trouble.message.encode("ascii", "replace").decode()
    return "x-sandcell-reason", "".join(letter if letter.isprintable() else "?" for letter in text)[:500]
