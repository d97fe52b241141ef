"""The one tornado handler of the console's face: admits a request, takes its body, calls the endpoint, answers.

What changes something is taken from the console's own page alone. The page and its parts are for everybody, and no
records are kept of them; what the page shows it asks the REST face for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kernel_gateway.errors import Forbidden, GatewayError, Unauthorized
from kernel_gateway.faces import scopes
from kernel_gateway.faces.audit import UNKNOWN_ROUTE, CallRecord
from kernel_gateway.faces.browser import comes_from_console, find_secret
from kernel_gateway.faces.calls import AdmittedCall
from kernel_gateway.faces.console.routes import ADDRESSES, NOTHING_HERE, PAGE, Route
from kernel_gateway.faces.errors import UnknownRoute
from kernel_gateway.faces.handler import FaceHandler, make_error_headers
from kernel_gateway.faces.json_bodies import decode, encode
from kernel_gateway.faces.responses import JSON, ErrorResponse
from kernel_gateway.faces.routing import is_read_only
from kernel_gateway.services.audit.api_call import CONSOLE

if TYPE_CHECKING:
    from kernel_gateway.services.composition import Services


class ConsoleHandler(FaceHandler):
    """One request."""

    nothing_here = NOTHING_HERE

    def initialize(self, services: Services) -> None:
        super().initialize(services)
        self.address = ADDRESSES.find(self.request.path)
        self.route: Route | None = None
        self.call = AdmittedCall(services=services)

    def find_methods(self) -> list[str]:
        return self.address.methods

    async def admit(self) -> None:
        call, headers = self.call, self.request.headers
        if not self.address.routes:
            raise UnknownRoute(NOTHING_HERE)
        self.route = route = self.address.require(str(self.request.method))
        call.headers, call.ids = headers, self.address.parameters
        if not is_read_only(route.method) and not comes_from_console(headers):
            raise Forbidden("only the console's own page may ask for this")
        if route.scope is not None:
            secret = find_secret(headers)
            if not secret:
                raise Unauthorized("you are not signed in")
            call.found = await self.services.sign_ins.authenticate(secret)
            self.services.limits.take_request(call.principal)
            scopes.require(call.caller, route.scope)
        self.count(self.announced)
        await self.expect(call.principal.id)

    async def respond(self) -> None:
        route = self.route
        if route is None:
            raise UnknownRoute(NOTHING_HERE)
        if route.body is not None:
            self.call.body = decode(await self.body.whole(self.call.principal.id), route.body)
        self.body.note_decoded()
        await self.send(await route.endpoint(self.call), route.status)

    def describe_error(self, error: GatewayError) -> ErrorResponse:
        headers = {**make_error_headers(error), "Content-Type": JSON}
        if self.request.path == PAGE:
            headers["Vary"] = "Accept"
        return ErrorResponse(encode(error.body()), error.status, headers, code=error.code, message=error.message)

    def record_call(self) -> CallRecord | None:
        route = self.address.routes.get(str(self.request.method))
        if route is not None and route.scope is None and route.read_only:
            return None
        return CallRecord(
            event=route.event if route is not None else UNKNOWN_ROUTE,
            source=CONSOLE,
            read_only=route.read_only if route is not None else is_read_only(self.request.method),
            principal=self.call.principal,
        )
