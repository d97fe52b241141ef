"""The one tornado handler of the REST face: admits a request, takes its body, calls the endpoint, sends the answer.

Nothing is read or looked up for a caller who is not authenticated. How a body is taken or refused is in
`faces.receiving`, what an answer looks like on the wire in `replies`.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
from typing import TYPE_CHECKING, Any

from kernel_gateway.errors import GatewayError, NotFound
from kernel_gateway.faces import answering, scopes
from kernel_gateway.faces.body import SMALL_BODY
from kernel_gateway.faces.errors import MethodNotAllowed, UnknownRoute
from kernel_gateway.faces.receiving import ReceivingHandler, ours
from kernel_gateway.faces.rest import audited, bodies, paths, replies
from kernel_gateway.faces.rest.calls import Call
from kernel_gateway.faces.rest.route import Route
from kernel_gateway.faces.rest.upload import Upload
from kernel_gateway.identity.principal import Caller

if TYPE_CHECKING:
    from kernel_gateway.services.composition import Services

MOST_TOKEN_CHARACTERS = 512
MOST_ID_CHARACTERS = 128
CALLED = {"sha256": "output", "name": "dataset"}
"""What parameters of addresses stand for, where their names do not say it."""
ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]*")
"""What ids, and names that stand for them in an address, are made of."""


class RestHandler(ReceivingHandler):
    """One request. `routes` are the table's rows of its address, by method."""

    def initialize(self, services: Services, routes: dict[str, Route]) -> None:  # type: ignore[override]
        super().initialize(services)
        self.routes = routes
        self.route: Route | None = None
        self.call = Call(services)
        self._upload: Upload | None = None
        self.content: Any = None
        self.result: Any = None
        self.error: GatewayError | None = None
        self.cut_off = ""

    def set_default_headers(self) -> None:
        """No word about the server; nothing is cached or guessed at."""
        answering.default_headers(self)

    def decode_argument(self, value: bytes, name: str | None = None) -> str:
        """Parameters of an address: any bytes, those that are not UTF-8 as surrogate escapes."""
        return value.decode("utf-8", "surrogateescape")

    async def admit(self) -> None:
        if not any(route.public for route in self.routes.values()):
            self.call.caller = await self._authenticate()
            self.services.limits.take_request(self.call.principal)
            self.enter(self.call.caller)
        self.route = route = self._routed()
        if route.scope is not None:
            scopes.require(self.call.caller, route.scope)
        if route.invocation:
            self.services.limits.take_invocation(self.call.principal)
        self._read_address(route)
        self._expect_body(route)
        await self.expect(self.call.principal.id)
        if route.uploads:
            self._start_upload(route)

    async def _authenticate(self) -> Caller:
        scheme, _, token = self.request.headers.get("Authorization", "").partition(" ")
        usable = scheme.lower() == "bearer" and len(token) <= MOST_TOKEN_CHARACTERS
        return await self.services.identity.authenticate(token.strip() if usable else "")

    def _routed(self) -> Route:
        if not self.routes:
            raise UnknownRoute("there is nothing at this address; /v1/openapi.json lists what there is")
        method = str(self.request.method)
        if method not in self.routes:
            raise MethodNotAllowed(method, sorted(self.routes))
        return self.routes[method]

    def _read_address(self, route: Route) -> None:
        call, ids = self.call, dict(self.path_kwargs)
        if "path" in ids:
            call.path = paths.checked(ids.pop("path"))
        for name, value in ids.items():
            if not ID.fullmatch(value) or len(value) > MOST_ID_CHARACTERS:
                raise NotFound(f"there is no such {CALLED.get(name) or name.removesuffix('_id')}")
        call.ids = ids
        call.headers = self.request.headers
        call.query = bodies.query(self.request.query, route.query)
        call.forget_body = self.body.release
        call.cancellable = route.method in ("GET", "HEAD")

    def _expect_body(self, route: Route) -> None:
        settings = self.services.settings
        if route.uploads or route.large:
            self.most_bytes = settings.payload_bytes
        elif route.body is not None:
            self.most_bytes = min(settings.payload_bytes, 3 * settings.code_bytes + SMALL_BODY)
        self.count(self.announced)
        if route.body is not None and self.has_body:
            bodies.check_json(self.request.headers.get("Content-Type", ""))

    def _start_upload(self, route: Route) -> None:
        async def work(chunks: Any) -> Any:
            self.call.chunks = chunks
            return await route.endpoint(self.call)

        self.content = hashlib.sha256()
        self._upload = Upload(work)

    async def take(self, chunk: bytes) -> None:
        if self._upload is None:
            await super().take(chunk)
        else:
            self.content.update(chunk)
            await self._hand_on(self._upload, chunk)

    async def _hand_on(self, upload: Upload, chunk: bytes) -> None:
        await upload.put(chunk)
        if upload.task.done() and not upload.task.cancelled() and (error := upload.task.exception()):
            raise self.ours(error)

    async def abandon(self) -> None:
        if self._upload is not None:
            await self._upload.abort()

    def give_up(self) -> None:
        super().give_up()
        if self._upload is not None:
            self._upload.task.cancel()

    async def respond(self) -> None:
        try:
            self.result = await self._result()
            await replies.send(self, self.result)
        except asyncio.CancelledError:
            if not self.gone or self.working is None:
                raise
            self.working.uncancel()
            self.set_status(499, "Client Closed Request")

    async def _result(self) -> Any:
        if self.route is None:
            raise UnknownRoute("there is nothing at this address")
        if self._upload is not None:
            return await self._upload.finish()
        if self.route.body is not None:
            self.call.body = bodies.decode(await self.body.whole(self.call.principal.id), self.route.body)
            self.body.decoded()
        if self.gone and self.call.cancellable:
            raise asyncio.CancelledError
        return await self.route.endpoint(self.call)

    def on_connection_close(self) -> None:
        """Called by tornado when the client is gone: what only waits is cancelled, an incomplete upload given up."""
        super().on_connection_close()
        if self.working is not None and self.call.cancellable:
            self.working.cancel()

    def say(self, error: Exception) -> None:
        replies.write_error(self, self.ours(error))

    def fail(self, error: Exception) -> None:
        replies.fail(self, error)

    def ours(self, error: BaseException) -> GatewayError:
        return ours(error, self.request_id)

    def audit(self) -> None:
        audited.record(self)

    def write_error(self, status_code: int, **kwargs: Any) -> None:
        """Called by tornado for errors of its own: a method that HTTP does not know.

        That is before the body is read, so tornado closes the connection afterwards; the client is told.
        """
        self.set_header("Connection", "close")
        replies.write_tornado_error(self, status_code, kwargs.get("exc_info"), sorted(self.routes))
