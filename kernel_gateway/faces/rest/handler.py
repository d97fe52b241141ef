"""The one tornado handler of the REST face: admits a request, takes its body, calls the endpoint.

Nothing is read or looked up for a caller who is not authenticated. How a body is taken or refused is in
`faces.receiving`, how an answer goes out in `faces.handler`.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections.abc import AsyncIterator
from http import HTTPStatus
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote_to_bytes

import msgspec

from kernel_gateway.errors import GatewayError, NotFound, SessionElsewhere
from kernel_gateway.faces import scopes
from kernel_gateway.faces.audit import LONGEST_ID, UNKNOWN_ROUTE, CallRecord
from kernel_gateway.faces.body import SMALL_BODY
from kernel_gateway.faces.browser import find_secret
from kernel_gateway.faces.errors import UnknownRoute
from kernel_gateway.faces.handler import FaceHandler, make_error_headers
from kernel_gateway.faces.json_bodies import decode, encode
from kernel_gateway.faces.responses import Answer, ErrorResponse, Response
from kernel_gateway.faces.rest import bodies, paths
from kernel_gateway.faces.rest.calls import Call
from kernel_gateway.faces.rest.elsewhere import ask_again
from kernel_gateway.faces.rest.route import Route
from kernel_gateway.faces.rest.table import TABLE
from kernel_gateway.faces.rest.upload import Upload
from kernel_gateway.faces.routing import RouteTree, is_read_only
from kernel_gateway.identity.principal import Caller
from kernel_gateway.services.audit.api_call import REST
from kernel_gateway.services.audit.parameters import select_answer, select_values
from sandcell.models.sessions import Session

if TYPE_CHECKING:
    from kernel_gateway.services.composition import Services

MOST_TOKEN_CHARACTERS = 512
MOST_ID_CHARACTERS = 128
CALLED = {"sha256": "output", "name": "dataset"}
"""What parameters of addresses stand for, where their names do not say it."""
ID = re.compile(r"(?:sha256:)?[A-Za-z0-9][A-Za-z0-9._@-]*")
"""What ids, and names that stand for them in an address, are made of."""


def decode_parameter(value: str) -> str:
    """A parameter of an address: any bytes, those that are not UTF-8 as surrogate escapes."""
    return unquote_to_bytes(value).decode("utf-8", "surrogateescape")


ADDRESSES = RouteTree(TABLE, decode=decode_parameter)


class RestHandler(FaceHandler):
    """One request. `address` is what there is where it was sent."""

    def initialize(self, services: Services) -> None:
        super().initialize(services)
        self.address = ADDRESSES.find(self.request.path)
        self.route: Route | None = None
        self.call = Call(services)
        self.answer_value: Answer = None
        self._upload: Upload[Answer] | None = None
        self._passed_on = False
        self._content_hash = hashlib.sha256()

    def find_methods(self) -> list[str]:
        return self.address.methods

    @property
    def is_public(self) -> bool:
        return any(route.public for route in self.address.routes.values())

    async def admit(self) -> None:
        if not self.is_public:
            self.call.caller = await self._authenticate()
            self.services.limits.take_request(self.call.principal)
            self.enter(self.call.caller)
        if not self.address.routes:
            raise UnknownRoute("there is nothing at this address; /v1/openapi.json lists what there is")
        self.route = route = self.address.require(str(self.request.method))
        scopes.require(self.call.caller, route.scope)
        if route.invocation:
            self.services.limits.take_invocation(self.call.principal)
        self._read_address(route)
        self._expect_body(route)
        await self.expect(self.call.principal.id)
        if route.uploads:
            self._start_upload(route)

    async def _authenticate(self) -> Caller:
        """Who calls, by a token, or signed in to the console whose page asks."""
        if "Authorization" not in self.request.headers and (secret := find_secret(self.request.headers)):
            return await self.services.sign_ins.authenticate(secret)
        scheme, _, token = self.request.headers.get("Authorization", "").partition(" ")
        usable = scheme.lower() == "bearer" and len(token) <= MOST_TOKEN_CHARACTERS
        return await self.services.identity.authenticate(token.strip() if usable else "")

    def _read_address(self, route: Route) -> None:
        call, ids = self.call, dict(self.address.parameters)
        if "path" in ids:
            call.path = paths.check_path(ids.pop("path"))
        for name, value in ids.items():
            if not ID.fullmatch(value) or len(value) > MOST_ID_CHARACTERS:
                raise NotFound(f"there is no such {CALLED.get(name) or name.removesuffix('_id')}")
        call.ids = ids
        call.headers = self.request.headers
        call.query = bodies.read_query(self.request.query, route.query)
        call.forget_body = self.body.release
        call.pass_on = self._pass_on
        call.cancellable = route.read_only

    def _expect_body(self, route: Route) -> None:
        settings = self.services.settings
        if route.uploads or route.large:
            self.most_bytes = settings.payload_bytes
        elif route.body is not None:
            # JSON may write code in three times its bytes, each letter that is not ASCII as an escape.
            self.most_bytes = min(settings.payload_bytes, 3 * settings.code_bytes + SMALL_BODY)
        self.count(self.announced)
        if route.body is not None and self.has_body:
            bodies.check_json(self.request.headers.get("Content-Type", ""))

    def _start_upload(self, route: Route) -> None:
        async def work(chunks: AsyncIterator[bytes]) -> Answer:
            self.call.chunks = chunks
            return await route.endpoint(self.call)

        self._upload = Upload(work)

    async def take(self, chunk: bytes) -> None:
        if self._upload is None:
            await super().take(chunk)
        else:
            self._content_hash.update(chunk)
            await self._hand_on(self._upload, chunk)

    async def _hand_on(self, upload: Upload[Answer], chunk: bytes) -> None:
        """An endpoint that fails before all is there ends the upload: the rest of the body is refused."""
        await upload.put(chunk)
        if upload.task.done() and not upload.task.cancelled() and (error := upload.task.exception()):
            raise self.translate_error(error)

    async def abandon(self) -> None:
        if self._upload is not None:
            await self._upload.abort()

    def drop_body(self) -> None:
        super().drop_body()
        if self._upload is not None:
            self._upload.task.cancel()

    async def respond(self) -> None:
        if self.route is None:
            raise UnknownRoute(self.nothing_here)
        try:
            self.answer_value = await self._call_endpoint(self.route)
            await self.send(self.answer_value, self.route.status)
        except asyncio.CancelledError:
            if not self.gone or self.working is None:
                raise
            self.working.uncancel()  # by `on_connection_close`: the client left, and the service goes on
            self.note_client_gone()

    async def _call_endpoint(self, route: Route) -> Answer:
        if self._upload is not None:
            return await self._upload.finish()
        if route.body is not None:
            self.call.body = decode(await self.body.whole(self.call.principal.id), route.body)
            self.body.note_decoded()
        if self.gone and self.call.cancellable:
            raise asyncio.CancelledError
        return await route.endpoint(self.call)

    async def _pass_on(self, address: str) -> Response:
        """The answer of another gateway, which records the call in this one's stead; raises SessionElsewhere."""
        self._passed_on = True
        try:
            return await ask_again(self.request, self.services.gateways.gateway_id, address, encode(self.call.body))
        except SessionElsewhere:
            self._passed_on = False
            raise

    def on_connection_close(self) -> None:
        """Called by tornado when the client is gone: what only waits is cancelled, an incomplete upload given up."""
        super().on_connection_close()
        if self.working is not None and self.call.cancellable:
            self.working.cancel()

    def describe_error(self, error: GatewayError) -> ErrorResponse:
        body = encode(error.body())
        return ErrorResponse(body, error.status, make_error_headers(error), code=error.code, message=error.message)

    def record_call(self) -> CallRecord | None:
        """Not of probes, the OpenAPI document and scrapes, nor of what another gateway did, which records it.

        The token that a request came with is never kept.
        """
        scraped = self.route is not None and self.route.scraped and self.get_status() < HTTPStatus.BAD_REQUEST
        if self.is_public or scraped or self._passed_on:
            return None
        route, call = self.address.routes.get(str(self.request.method)), self.call
        return CallRecord(
            event=route.event if route is not None else UNKNOWN_ROUTE,
            source=REST,
            read_only=route.read_only if route is not None else is_read_only(self.request.method),
            principal=call.principal,
            session_id=self._find_session_id(),
            parameters=self._collect_parameters(),
            answer=None if self.request.method == "GET" else select_answer(self._find_result()),
        )

    def _collect_parameters(self) -> dict[str, Any]:
        """From the address, the query and the body; of a request that is refused early from the address alone."""
        call = self.call
        found = select_values(self.address.parameters) | select_values(call.query) | select_values(call.body)
        if self._upload is not None:
            found["content"] = {"bytes": self.received, "sha256": self._content_hash.hexdigest()}
        return found

    def _find_session_id(self) -> str | None:
        """The session that the address names, or that was started: then the answer names it."""
        named = self.address.parameters.get("session_id")
        if named is not None:
            return named if len(named) <= LONGEST_ID and named.isascii() and named.isprintable() else None
        result = self._find_result()
        return result.id if isinstance(result, Session) else None

    def _find_result(self) -> msgspec.Struct | None:
        """The value that the answer has, if it is one."""
        answer = self.answer_value
        value = answer.body if isinstance(answer, Response) else answer
        return value if isinstance(value, msgspec.Struct) else None
