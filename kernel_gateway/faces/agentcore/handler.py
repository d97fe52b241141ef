"""The one tornado handler of this face: admits a request, takes and hashes its body, verifies, acts, answers.

Until the signature is verified, which takes the whole body, nothing is looked up but the key, and the room for the
body is not its owner's: anybody may say that a key is his. How an answer goes out is in `faces.handler`.
"""

from __future__ import annotations

import hashlib
from typing import Any, Final

import msgspec
from tornado.iostream import StreamClosedError

from kernel_gateway.errors import GatewayError, InvalidRequest, PayloadTooLarge
from kernel_gateway.faces import scopes
from kernel_gateway.faces.agentcore import operations, requests
from kernel_gateway.faces.agentcore.blobs import unpack_files
from kernel_gateway.faces.agentcore.calls import Call, Face
from kernel_gateway.faces.agentcore.errors import make_refusal
from kernel_gateway.faces.agentcore.identifiers import parse_session_id
from kernel_gateway.faces.agentcore.operations import Operation
from kernel_gateway.faces.audit import CallRecord
from kernel_gateway.faces.handler import FaceHandler
from kernel_gateway.faces.json_bodies import decode, encode
from kernel_gateway.faces.responses import JSON, Answer, ErrorResponse, Response
from kernel_gateway.identity import sigv4
from kernel_gateway.identity.principal import ANONYMOUS, Caller
from kernel_gateway.services.audit.api_call import AGENTCORE
from kernel_gateway.services.audit.parameters import select_values

MOST_BESIDE_FILES = 1_048_576
"""What a body may have besides the files in it, and the most of one that carries none."""
UNKNOWN: Final = "UnknownOperation"
"""The event of requests that no operation takes."""


class AgentCoreHandler(FaceHandler):
    """One request."""

    nothing_here = "no such operation"
    gone_message = "the client left before it had its answer; what was begun goes on"

    def initialize(self, face: Face) -> None:  # type: ignore[override]
        super().initialize(face.services)
        self.face = face
        self.address = operations.find_address(self.request.path)
        self.operation: Operation | None = None
        self.claim: sigv4.Claim | None = None
        self.call: Call | None = None
        self.answer_value: Answer = None
        self._recorded_parameters: dict[str, Any] | None = None
        self._signed: sigv4.SignedRequest | None = None
        self._key: tuple[Caller, str] | None = None
        self._hash = hashlib.sha256()
        self._admitted = 0.0

    def set_default_headers(self) -> None:
        """No word about the server; every answer can be named as AWS's clients name it."""
        self.clear_header("Server")
        self.set_header("Content-Type", JSON)
        self.set_header("Cache-Control", "no-store")
        self.set_header("x-amzn-RequestId", self.request_id)

    def find_methods(self) -> list[str]:
        return self.address.methods

    async def admit(self) -> None:
        request, services = self.request, self.services
        method = str(request.method)
        self.operation = operations.require(self.address, method)
        self._signed = sigv4.SignedRequest(method, request.path, request.query, list(request.headers.get_all()))
        self.claim = sigv4.read_claim(self._signed)
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
        self.call = call = self._verify()
        self.services.limits.take_request(call.principal)
        operation = self.operation
        if operation is None:
            raise InvalidRequest("there is no such operation")
        scopes.require(call.caller, operation.scope)
        await self._read(call, operation)
        # Now: `invoke` lets go of its arguments.
        self._recorded_parameters = select_values(call.outside) | select_values(call.body)
        self.answer_value = answer = await operation.endpoint(call)
        try:
            await self.send(answer, operation.status)
        except StreamClosedError:  # while an invocation's stream went out; the work that it waited for goes on
            self.gone = True
            self.note_client_gone()
            self.finish()

    async def _read(self, call: Call, operation: Operation) -> None:
        """What the request says, in memory that the call answers for from now on."""
        body = await self.body.whole(call.principal.id)
        call.reservation = self.body.hand_over()
        call.outside = operations.read_outside(
            operation, self.address.parameters, self.request.query, self.request.headers
        )
        call.body = decode(body, operation.body)
        if isinstance(call.body, requests.Invoke):
            call.body = await unpack_files(call.body.name, call.body.arguments)
        if call.reservation is not None:
            call.reservation.shrink(len(body))

    def _verify(self) -> Call:
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

    def translate_error(self, error: BaseException) -> Exception:
        return error if isinstance(error, sigv4.SignatureProblem) else super().translate_error(error)

    def describe_any(self, error: Exception) -> ErrorResponse:
        if isinstance(error, sigv4.SignatureProblem):
            return _describe(error)
        return super().describe_any(error)

    def describe_error(self, error: GatewayError) -> ErrorResponse:
        return _describe(error)

    def on_connection_close(self) -> None:
        """Called by tornado when the client is gone: an invocation goes on, and nothing waits for it."""
        super().on_connection_close()
        if self.call is not None:
            self.call.leave()

    def on_finish(self) -> None:
        """Called by tornado when the answer is on its way: what the work has not taken over is released."""
        super().on_finish()
        if self.call is not None:
            self.call.end()

    def record_call(self) -> CallRecord:
        """In CloudTrail's names; no code, no content of files."""
        operation, call, claim = self.operation, self.call, self.claim
        answer = self._describe_answer()
        return CallRecord(
            event=operation.event if operation else UNKNOWN,
            source=AGENTCORE,
            read_only=bool(operation and operation.read_only),
            principal=call.principal if call else ANONYMOUS,
            access_key_id=claim.access_key_id if claim else "",
            session_id=_find_session_id(call, answer),
            parameters=self._recorded_parameters or select_values(self.address.parameters if operation else {}),
            answer=answer,
        )

    def _describe_answer(self) -> dict[str, Any] | None:
        """Of an answer that changed something its members, of a tool's result whether it is an error, and its size."""
        if self.call is not None and self.call.result is not None:
            return select_values(self.call.result)
        answer = self.answer_value
        content = answer.body if isinstance(answer, Response) else None
        return select_values(msgspec.json.decode(content)) or None if isinstance(content, bytes) else None


def _describe(error: GatewayError | sigv4.SignatureProblem) -> ErrorResponse:
    found = make_refusal(error)
    headers = {"x-amzn-ErrorType": found.shape, **found.headers}
    return ErrorResponse(encode(found.body()), found.status, headers, code=found.shape, message=found.message)


def _find_session_id(call: Call | None, answer: dict[str, Any] | None) -> str | None:
    """The session that was named, or that was started: only the answer names that one."""
    if call is None or call.session_id is not None:
        return call.session_id if call else None
    started = (answer or {}).get("sessionId")
    return parse_session_id(started) if started else None
