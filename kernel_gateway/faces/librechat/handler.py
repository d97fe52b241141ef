"""The one tornado handler of this face: admits a request, takes its body, calls the endpoint, answers.

A caller is known by a token: in `X-API-Key`, as older clients send it, as a bearer token, or in the address, behind
`/librechat/`, for clients that send none: there it is taken out before any handler sees the path (`misdirected`).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

from kernel_gateway.errors import GatewayError, LimitReached, NotFound
from kernel_gateway.faces import scopes
from kernel_gateway.faces.audit import UNKNOWN_ROUTE, CallRecord
from kernel_gateway.faces.body import SMALL_BODY
from kernel_gateway.faces.calls import parse_query
from kernel_gateway.faces.errors import NotOffered, UnknownRoute
from kernel_gateway.faces.handler import FaceHandler, make_error_headers
from kernel_gateway.faces.json_bodies import decode, encode
from kernel_gateway.faces.librechat import identifiers
from kernel_gateway.faces.librechat.places import Call
from kernel_gateway.faces.librechat.requests import ExecuteCode
from kernel_gateway.faces.librechat.routes import ADDRESSES, Route
from kernel_gateway.faces.responses import JSON, ErrorResponse
from kernel_gateway.faces.routing import is_read_only
from kernel_gateway.services.audit.api_call import LIBRECHAT
from kernel_gateway.services.audit.parameters import select_values

if TYPE_CHECKING:
    from kernel_gateway.faces.librechat.places import Places
    from kernel_gateway.services.composition import Services

MOST_BESIDE_FILES: Final = 1_048_576
"""What an upload may have besides the files in it."""


class LibreChatHandler(FaceHandler):
    """One request."""

    def initialize(self, services: Services, places: Places) -> None:  # type: ignore[override]
        super().initialize(services)
        self.address = ADDRESSES.find(self.request.path)
        self.route: Route | None = None
        self.call = Call(services=services, places=places)

    def find_methods(self) -> list[str]:
        return self.address.methods

    async def admit(self) -> None:
        call = self.call
        call.headers, call.query = self.request.headers, parse_query(self.request.query)
        call.ids = self.address.parameters
        call.found = await self.services.identity.authenticate(identifiers.find_token(call.headers))
        self.services.limits.take_request(call.principal)
        self.enter(call.caller)
        if not self.address.routes:
            raise UnknownRoute(
                "there is nothing at this address of LibreChat's Code API; its page in the docs lists it"
            )
        self.route = route = self.address.require(str(self.request.method))
        scopes.require(call.caller, route.scope)
        settings = self.services.settings
        if route.uploads:
            self.most_bytes = settings.payload_bytes + MOST_BESIDE_FILES
        elif route.body is not None:
            self.most_bytes = min(settings.payload_bytes, 3 * settings.code_bytes + SMALL_BODY)
        self.count(self.announced)
        await self.expect(call.principal.id)

    async def respond(self) -> None:
        route = self.route
        if route is None:
            raise UnknownRoute(self.nothing_here)
        if route.uploads:  # the parser holds the parts twice
            self.call.content = bytes(await self.body.whole(self.call.principal.id, 2 * self.body.size))
        elif route.body is not None:
            self.call.body = decode(await self.body.whole(self.call.principal.id), route.body)
        self.body.note_decoded()
        await self.send(await route.endpoint(self.call), route.status)

    def describe_error(self, error: GatewayError) -> ErrorResponse:
        headers = {**make_error_headers(error), "Content-Type": JSON}
        return ErrorResponse(encode(_describe(error)), error.status, headers, code=error.code, message=error.message)

    def record_call(self) -> CallRecord:
        """No code and no content of files; what ran is in the session's record."""
        route = self.route or self.address.routes.get(str(self.request.method))
        body = self.call.body
        found = {"code": body.code, "language": body.lang} if isinstance(body, ExecuteCode) else {}
        return CallRecord(
            event=route.event if route is not None else UNKNOWN_ROUTE,
            source=LIBRECHAT,
            read_only=route.read_only if route is not None else is_read_only(self.request.method),
            principal=self.call.principal,
            session_id=None,
            parameters=select_values({**found, "workspace_id": self._find_workspace()}),
        )

    def _find_workspace(self) -> str | None:
        try:
            return identifiers.parse_id(self.call.ids.get("storage_id", ""))
        except NotFound:
            return None


def _describe(error: GatewayError) -> dict[str, Any]:
    """An error as LibreChat's client reads it: by its status, and by `error` where that is a word that it knows.

    `rate_limited` has the seconds to wait; by `unsupported_capability` the client tells the model not to try again.
    """
    told: dict[str, Any] = {"error": error.message, "message": error.message, "code": error.code}
    if isinstance(error, LimitReached):
        return told | {"error": "rate_limited", "retry_after_seconds": max(1, math.ceil(error.retry_after_seconds))}
    if isinstance(error, NotOffered):
        return told | {"error": "unsupported_capability", "code": "unsupported_capability"}
    return told
