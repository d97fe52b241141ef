"""The one tornado handler of this face: admits a request, takes and hashes its body, verifies, acts, answers.

Until the signature is verified, which takes the whole body, nothing is looked up but the key, and the room for the
body is not its owner's: anybody may say that a key is his. What an answer looks like on the wire is in `replies`.
"""

from __future__ import annotations

import hashlib
from typing import Any

from kernel_gateway.errors import InvalidRequest, PayloadTooLarge
from kernel_gateway.faces import scopes
from kernel_gateway.faces.agentcore import audited, operations, replies, requests
from kernel_gateway.faces.agentcore.blobs import unpacked
from kernel_gateway.faces.agentcore.calls import Call, Face
from kernel_gateway.faces.agentcore.errors import Refusal
from kernel_gateway.faces.agentcore.operations import Operation
from kernel_gateway.faces.json_bodies import decode
from kernel_gateway.faces.receiving import ReceivingHandler, ours
from kernel_gateway.identity import sigv4
from kernel_gateway.identity.principal import Caller

MOST_BESIDE_FILES = 1_048_576
"""What a body may have beside the files in it, and the most of one that carries none."""


class AgentCoreHandler(ReceivingHandler):
    """One request."""

    def initialize(self, face: Face) -> None:  # type: ignore[override]
        super().initialize(face.services)
        self.face = face
        self.operation: Operation | None = None
        self.labels: dict[str, str] = {}
        self.claim: sigv4.Claim | None = None
        self.call: Call | None = None
        self.parameters: dict[str, Any] | None = None
        self.answered_with: Any = None
        self.refused_with: Refusal | None = None
        self._signed: sigv4.SignedRequest | None = None
        self._key: tuple[Caller, str] | None = None
        self._hash = hashlib.sha256()
        self._admitted = 0.0

    def set_default_headers(self) -> None:
        """No word about the server; every answer can be named."""
        replies.default_headers(self)

    async def admit(self) -> None:
        request, services = self.request, self.services
        self.operation, self.labels = operations.find(str(request.method), request.path)
        headers = list(request.headers.get_all())
        self._signed = sigv4.SignedRequest(str(request.method), request.path, request.query, headers)
        self.claim = sigv4.claimed(self._signed)
        self._admitted = services.clock.now()  # what takes long to arrive was signed in time all the same
        sigv4.require_timely(self.claim, self._admitted)
        self._key = await services.access_keys.find(self.claim.access_key_id)
        self.enter(self._key[0])
        self._expect_body(self.operation)
        await self.expect(f"unverified {self._key[0].principal.id}")

    def _expect_body(self, operation: Operation) -> None:
        """A body with files is larger than they are by a third: they come as base64."""
        if "Transfer-Encoding" not in self.request.headers:
            files = self.services.settings.payload_bytes // 3 * 4 if operation.carries_files else 0
            self.most_bytes = files + MOST_BESIDE_FILES
        self.count(self.announced)

    def count(self, size: int) -> None:
        if size > self.most_bytes and "Transfer-Encoding" in self.request.headers:
            most = self.most_bytes
            raise PayloadTooLarge(f"a body of more than {most:,} bytes must come with a Content-Length, not chunked")
        super().count(size)

    async def take(self, chunk: bytes) -> None:
        self._hash.update(chunk)
        await super().take(chunk)

    async def respond(self) -> None:
        self.call = call = self._verified()
        self.services.limits.take_request(call.principal)
        operation = self._found()
        scopes.require(call.caller, operation.scope)
        body = await self.body.whole(call.principal.id)
        call.reservation = self.body.hand_over()
        call.outside = operations.outside(operation, self.labels, self.request.query, self.request.headers)
        call.body = decode(body, operation.body)
        if isinstance(call.body, requests.Invoke):
            call.body = await unpacked(call.body.name, call.body.arguments)
        if call.reservation is not None:
            call.reservation.shrink(len(body))
        del body
        self.parameters = audited.parameters(call)
        answer = await operation.act(call)
        await replies.send(self, operation, answer)

    def _found(self) -> Operation:
        if self.operation is None:
            raise InvalidRequest("there is no such operation")
        return self.operation

    def _verified(self) -> Call:
        """Who calls; raises SignatureProblem."""
        claim, signed, key = self.claim, self._signed, self._key
        if claim is None or signed is None or key is None:
            raise InvalidRequest("the request is not signed")
        (caller, secret), self._key = key, None
        digest = self._hash.hexdigest()
        sigv4.verify(signed, claim, secret, digest, self._admitted)
        self.services.access_keys.note_use(caller)
        return Call(
            face=self.face,
            caller=caller,
            region=claim.region,
            outside=None,
            body=None,
            body_sha256=digest,
            invocation_id=self.request.headers.get("amz-sdk-invocation-id", ""),
        )

    def ours(self, error: Exception) -> Exception:
        return error if isinstance(error, sigv4.SignatureProblem) else ours(error, self.request_id)

    def say(self, error: Exception) -> None:
        replies.write_error(self, error)

    def fail(self, error: Exception) -> None:
        replies.fail(self, error)

    def on_finish(self) -> None:
        """Called by tornado when the answer is on its way: what the work has not taken on is let go of."""
        super().on_finish()
        if self.call is not None:
            self.call.end()

    def audit(self) -> None:
        """Called once when the request is over, whatever came of it."""
        audited.record(self)

    def operations_here(self) -> tuple[dict[str, Operation], dict[str, str]]:
        """The operations of this address by method, and the labels in it."""
        return operations.at(self.request.path)

    def write_error(self, status_code: int, **kwargs: Any) -> None:
        """Called by tornado for errors of its own, before the body is read: it closes the connection afterwards."""
        self.set_header("Connection", "close")
        replies.write_tornado_error(self, status_code, kwargs.get("exc_info"))
