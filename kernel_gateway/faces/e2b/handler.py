"""The one tornado handler of this face: admits a request, takes its body, calls the endpoint, answers.

The control plane knows a caller by a key. All else names a sandbox and has its token; addresses of files may be signed
instead, and then name neither. Of a caller's sandboxes those that do not live, and of others' all, are gone.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

from kernel_gateway.errors import GatewayError, InvalidRequest, NotFound, Unauthorized
from kernel_gateway.faces import scopes
from kernel_gateway.faces.audit import UNKNOWN_ROUTE, CallRecord
from kernel_gateway.faces.body import SMALL_BODY
from kernel_gateway.faces.calls import parse_query
from kernel_gateway.faces.e2b import connect, errors, files, identifiers
from kernel_gateway.faces.e2b.calls import Call, require_live
from kernel_gateway.faces.e2b.errors import Plane, SandboxGone
from kernel_gateway.faces.e2b.routes import ADDRESSES, Route
from kernel_gateway.faces.errors import UnknownRoute
from kernel_gateway.faces.handler import FaceHandler
from kernel_gateway.faces.json_bodies import decode
from kernel_gateway.faces.responses import Answer, ErrorResponse
from kernel_gateway.faces.routing import is_read_only
from kernel_gateway.identity.principal import Caller
from kernel_gateway.services.audit.api_call import E2B
from kernel_gateway.services.audit.parameters import select_values

if TYPE_CHECKING:
    from kernel_gateway.services.composition import Services

MOST_RPC_BYTES: Final = 2 * 1024 * 1024
"""A body of envd's remote procedures: a megabyte of input, in base64."""
MOST_BESIDE_FILES: Final = 1_048_576
"""What an upload may have besides the files in it."""
LONGEST_RECORDED: Final = 128


class E2BHandler(FaceHandler):
    """One request."""

    def initialize(self, services: Services) -> None:
        super().initialize(services)
        self.address = ADDRESSES.find(self.request.path)
        self.route: Route | None = None
        self.call = Call(services=services)
        self.answer_value: Answer = None

    @property
    def plane(self) -> Plane:
        """Whose words an error is said in."""
        return next(iter(self.address.routes.values())).plane if self.address.routes else "control"

    def find_methods(self) -> list[str]:
        return self.address.methods

    async def admit(self) -> None:
        call = self.call
        call.headers, call.query = self.request.headers, parse_query(self.request.query)
        call.ids = self.address.parameters
        call.found = await self._authenticate()
        self.services.limits.take_request(call.principal)
        self.enter(call.caller)
        if not self.address.routes:
            raise UnknownRoute("there is nothing at this address of the E2B interface; its page in the docs lists it")
        self.route = route = self.address.require(str(self.request.method))
        scopes.require(call.caller, route.scope)
        if route.plane == "control":
            if "sandbox_id" in call.ids:
                call.session_id = identifiers.parse_sandbox_id(call.ids["sandbox_id"])
        else:
            require_live(call)
        self._expect_body(route)
        await self.expect(call.principal.id)

    async def _authenticate(self) -> Caller:
        headers, call = self.request.headers, self.call
        key = headers.get("X-Api-Key", "")
        if self.plane == "control":
            return await self.services.identity.authenticate(identifiers.parse_key(key))
        if "signature" in call.query and identifiers.SANDBOX_HEADER not in headers:
            return await self._check_signature()
        call.session_id = _find_session(headers.get(identifiers.SANDBOX_HEADER, ""))
        token = headers.get("X-Access-Token") or headers.get("E2b-Traffic-Access-Token") or ""
        if not token and key:
            return await self.services.identity.authenticate(identifiers.parse_key(key))
        return await self.services.sandbox_tokens.authenticate(token, call.session_id)

    async def _check_signature(self) -> Caller:
        query = self.call.query
        if self.request.path != "/files":
            raise Unauthorized("only addresses of files are signed")
        identifiers.require_path(query.get("path", ""))
        caller, self.call.session_id = await self.services.sandbox_tokens.check_signature(
            query["signature"],
            path=query.get("path", ""),
            operation="read" if self.request.method == "GET" else "write",
            user=query.get("username", ""),
            expiration=query.get("signature_expiration", ""),
        )
        return caller

    def _expect_body(self, route: Route) -> None:
        settings = self.services.settings
        if route.uploads:
            self.most_bytes = settings.payload_bytes + MOST_BESIDE_FILES
        elif route.plane == "code":
            self.most_bytes = min(settings.payload_bytes, 3 * settings.code_bytes + SMALL_BODY)
        elif route.plane == "rpc":
            self.most_bytes = MOST_RPC_BYTES
        self.count(self.announced)

    async def respond(self) -> None:
        route = self.route
        if route is None:
            raise UnknownRoute(self.nothing_here)
        try:
            await self._read_body(route)
            self.answer_value = await route.endpoint(self.call)
            await self.send(self.answer_value, route.status)
        except asyncio.CancelledError:
            if not self.gone or self.working is None:
                raise
            self.working.uncancel()  # by `on_connection_close`: the client left, and the service goes on
            self.note_client_gone()

    async def _read_body(self, route: Route) -> None:
        if route.body is None and not route.raw:
            return
        made_bytes = files.count_unpacked(self.call, self.body.size) if route.uploads else 0
        content = await self.body.whole(self.call.principal.id, made_bytes)
        if route.raw:
            self.call.content = bytes(content)
        elif route.enveloped:
            messages = connect.unwrap(bytes(content), route.body)
            if not messages:
                raise InvalidRequest("the body has no message")
            self.call.body = messages[0]
        else:
            self.call.body = decode(content, route.body)
        self.body.note_decoded()

    def on_connection_close(self) -> None:
        """Called by tornado when the client is gone: what is only streamed to it ends."""
        super().on_connection_close()
        if self.working is not None and self.route is not None and self.route.streams and self.begun:
            self.working.cancel()

    def describe_error(self, error: GatewayError) -> ErrorResponse:
        return errors.make_response(error, self.plane)

    def record_call(self) -> CallRecord:
        """No code, no content of files, no environment variables; commands and code are in the session's record."""
        route, call = self.route or self.address.routes.get(str(self.request.method)), self.call
        return CallRecord(
            event=route.event if route is not None else UNKNOWN_ROUTE,
            source=E2B,
            read_only=route.read_only if route is not None else is_read_only(self.request.method),
            principal=call.principal,
            session_id=call.session_id or self._find_started(),
            parameters=self._collect_parameters(),
        )

    def _collect_parameters(self) -> dict[str, Any]:
        body = self.call.body
        found = {name: getattr(body, name, None) for name in ("path", "code", "language", "timeout")}
        found["path"] = found["path"] or self.call.query.get("path")
        return select_values({name: value for name, value in found.items() if value is not None})

    def _find_started(self) -> str | None:
        body = getattr(self.answer_value, "body", None)
        named = body.get("sandboxID") if isinstance(body, dict) else None
        try:
            return None if named is None else identifiers.parse_sandbox_id(str(named)[:LONGEST_RECORDED])
        except NotFound:
            return None


def _find_session(sandbox_id: str) -> str:
    try:
        return identifiers.parse_sandbox_id(sandbox_id)
    except NotFound:
        raise SandboxGone(sandbox_id[:LONGEST_RECORDED]) from None
