"""The one tornado handler of the REST face: admits a request, takes its body, calls the endpoint, sends the answer.

Nothing is read or looked up for a caller who is not authenticated. A refused body is answered before it is read, and
then thrown away for a while, so that a client that is still sending gets to see the answer. Unlike tornado's own
limits, ours answer in JSON. What an answer looks like on the wire is in `replies`.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import tornado.web

from kernel_gateway.errors import GatewayError, NotFound, PayloadTooLarge
from kernel_gateway.faces.rest import bodies, paths, replies
from kernel_gateway.faces.rest.calls import Call
from kernel_gateway.faces.rest.errors import BodyTooSlow, MethodNotAllowed, UnknownRoute
from kernel_gateway.faces.rest.table import Route
from kernel_gateway.faces.rest.upload import Upload
from kernel_gateway.identity.principal import Principal

if TYPE_CHECKING:
    from kernel_gateway.services.composition import Services

SMALL_BODY = 65_536
"""A refused body of up to this many bytes is read first, which keeps the connection; also what a route without a body
puts up with."""
LINGER_SECONDS = 5.0
"""How long a larger refused body is thrown away before the connection is closed."""
JSON_BODY_SECONDS = 300.0
UPLOAD_STALL_SECONDS = 60.0
UPLOAD_SECONDS = 3_600.0
UNCOUNTED = 1 << 62
MOST_TOKEN_CHARACTERS = 512
MOST_ID_CHARACTERS = 128


@tornado.web.stream_request_body
class RestHandler(tornado.web.RequestHandler):
    """One request. `routes` are the table's rows of its address, by method."""

    def initialize(self, services: Services, routes: dict[str, Route]) -> None:
        self.services = services
        self.routes = routes
        self.route: Route | None = None
        self.call = Call(services)
        self.refusal: GatewayError | None = None
        self.answered = False
        self.gone = False
        self._body: list[bytes] = []
        self._received = 0
        self._most = SMALL_BODY
        self._upload: Upload | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._working: asyncio.Task[Any] | None = None

    def set_default_headers(self) -> None:
        """No word about the server; nothing is cached or guessed at."""
        replies.default_headers(self)

    def compute_etag(self) -> None:
        """No entity tags: nothing here is cached."""

    def decode_argument(self, value: bytes, name: str | None = None) -> str:
        """Parameters of an address: any bytes, those that are not UTF-8 as surrogate escapes."""
        return value.decode("utf-8", "surrogateescape")

    async def prepare(self) -> None:
        """Called by tornado when the headers are there and the body is not."""
        connection: Any = self.request.connection
        connection.set_max_body_size(UNCOUNTED)
        connection.stream.set_nodelay(True)
        try:
            await self._admit()
        except Exception as error:
            self.refuse(replies.ours(error))
        if self.refusal is None and self._has_body:
            self._arm(UPLOAD_STALL_SECONDS if self._upload else JSON_BODY_SECONDS)

    async def _admit(self) -> None:
        if not any(route.public for route in self.routes.values()):
            self.call.principal = await self._authenticate()
        self.route = route = self._routed()
        if route.invocation:
            self.services.limits.take_invocation(self.call.principal)
        self._read_address(route)
        self._expect_body(route)
        if route.uploads:
            self._start_upload(route)

    async def _authenticate(self) -> Principal:
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
            if not (value.isascii() and value.replace("-", "").replace("_", "").isalnum()):
                raise NotFound(f"there is no such {name.removesuffix('_id')}")
            if len(value) > MOST_ID_CHARACTERS:
                raise NotFound(f"there is no such {name.removesuffix('_id')}")
        call.ids = ids
        call.headers = self.request.headers
        call.query = bodies.query(self.request.query, route.query)
        call.cancellable = route.method == "GET"

    @property
    def _announced(self) -> int:
        """The body's length as announced; 0 when it is not."""
        text = self.request.headers.get("Content-Length", "")
        return int(text) if text.isascii() and text.isdigit() else 0

    @property
    def _has_body(self) -> bool:
        return self._announced > 0 or "Transfer-Encoding" in self.request.headers

    def _expect_body(self, route: Route) -> None:
        settings = self.services.settings
        if route.uploads:
            self._most = settings.payload_bytes
        elif route.body is not None:
            self._most = min(settings.payload_bytes, 3 * settings.code_bytes + SMALL_BODY)
        self._count(self._announced)
        if route.body is not None and self._has_body:
            bodies.check_json(self.request.headers.get("Content-Type", ""))

    def _count(self, size: int) -> None:
        if size > self._most:
            raise PayloadTooLarge(f"the body is larger than {self._most:,} bytes", limit_bytes=self._most)

    def _start_upload(self, route: Route) -> None:
        connection: Any = self.request.connection
        connection.set_body_timeout(UPLOAD_SECONDS)

        async def work(chunks: Any) -> Any:
            self.call.chunks = chunks
            return await route.endpoint(self.call)

        self._upload = Upload(work)

    async def data_received(self, chunk: bytes) -> None:
        """Called by tornado with each piece of the body; the next one is read when this returns."""
        if self.refusal is not None:
            return
        self._received += len(chunk)
        try:
            self._count(self._received)
        except PayloadTooLarge as error:
            await self._drop_upload()
            self.refuse(error)
            return
        if self._upload is None:
            self._body.append(chunk)
        else:
            await self._hand_on(self._upload, chunk)

    async def _hand_on(self, upload: Upload, chunk: bytes) -> None:
        self._disarm()
        await upload.put(chunk)
        if not upload.task.done():
            self._arm(UPLOAD_STALL_SECONDS)
        elif not upload.task.cancelled() and (error := upload.task.exception()):
            self.refuse(replies.ours(error))

    def refuse(self, error: GatewayError) -> None:
        """Settle on an error; said at once when much of the body is still to come, else in its turn."""
        if self.refusal is not None:
            return
        self.refusal = error
        self._body.clear()
        self._disarm()
        chunked = "Transfer-Encoding" in self.request.headers
        if chunked or self._announced - self._received > SMALL_BODY:
            self._answer_early(error)

    def _answer_early(self, error: GatewayError) -> None:
        self.answered = True
        self.set_header("Connection", "close")
        replies.write_error(self, error)
        if self.request.headers.get("Expect", "").lower() == "100-continue":
            self.finish()
            return
        self.flush()
        self._timer = asyncio.get_running_loop().call_later(LINGER_SECONDS, self._hang_up)

    def _arm(self, seconds: float) -> None:
        if self.gone:
            return
        self._timer = asyncio.get_running_loop().call_later(seconds, self._too_slow)

    def _disarm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _too_slow(self) -> None:
        if self._upload is not None:
            self._upload.task.cancel()
        self.refusal = BodyTooSlow("the body did not arrive in time")
        self.answered = True
        self.set_header("Connection", "close")
        replies.write_error(self, self.refusal)
        self._hang_up()

    def _hang_up(self) -> None:
        if not self._finished:
            self.finish()

    async def answer(self, **_ids: str) -> None:
        """Called by tornado when the body is complete."""
        self._disarm()
        if self.answered:
            self._hang_up()
            return
        self._working = asyncio.current_task()
        try:
            await replies.send(self, await self._result())
        except asyncio.CancelledError:
            if not self.gone or self._working is None:
                raise
            self._working.uncancel()
            self.set_status(499, "Client Closed Request")
        except Exception as error:
            replies.fail(self, error)

    get = post = put = delete = patch = head = options = answer

    async def _result(self) -> Any:
        if self.refusal is not None or self.route is None:
            raise self.refusal or UnknownRoute("there is nothing at this address")
        if self._upload is not None:
            return await self._upload.finish()
        if self.route.body is not None:
            body = self._body[0] if len(self._body) == 1 else b"".join(self._body)
            self._body.clear()
            self.call.body = bodies.decode(body, self.route.body)
        if self.gone and self.call.cancellable:
            raise asyncio.CancelledError
        return await self.route.endpoint(self.call)

    def on_connection_close(self) -> None:
        """Called by tornado when the client is gone: what only waits is cancelled, an incomplete upload given up."""
        super().on_connection_close()
        self.gone = True
        self._disarm()
        if self._upload is not None and self._working is None:
            self._upload.task.cancel()
        if self._working is not None and self.call.cancellable:
            self._working.cancel()

    async def _drop_upload(self) -> None:
        if self._upload is not None:
            self._disarm()
            await self._upload.abort()

    def on_finish(self) -> None:
        """Called by tornado when the answer is on its way."""
        self._disarm()

    def write_error(self, status_code: int, **kwargs: Any) -> None:
        """Called by tornado for errors of its own: a method that HTTP does not know.

        That is before the body is read, so tornado closes the connection afterwards; the client is told.
        """
        self.set_header("Connection", "close")
        replies.write_tornado_error(self, status_code, kwargs.get("exc_info"), sorted(self.routes))

    def log_exception(self, *_exc_info: Any) -> None:
        """What we do not handle is logged by `replies.ours`, once."""
