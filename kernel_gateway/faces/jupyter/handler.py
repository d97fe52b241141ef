"""The one tornado handler of this face's requests: admits, takes a small body, calls the endpoint, answers.

`/` and `/tree` are nothing, and say so to everybody: to VS Code that means that no password is asked for.
"""

from __future__ import annotations

from dataclasses import replace

from kernel_gateway.errors import GatewayError
from kernel_gateway.faces import scopes
from kernel_gateway.faces.audit import UNKNOWN_ROUTE, CallRecord
from kernel_gateway.faces.calls import parse_query
from kernel_gateway.faces.errors import UnknownRoute
from kernel_gateway.faces.handler import FaceHandler
from kernel_gateway.faces.json_bodies import decode
from kernel_gateway.faces.jupyter import records, responses, routes
from kernel_gateway.faces.jupyter.calls import Call, Face
from kernel_gateway.faces.jupyter.credentials import find_token
from kernel_gateway.faces.jupyter.routes import Route
from kernel_gateway.faces.responses import Answer, ErrorResponse, as_response
from kernel_gateway.faces.routing import is_read_only

PUBLIC = ("/", "/tree", "/tree/")
"""Addresses at which everybody gets the answer that nothing is there."""


class JupyterHandler(FaceHandler):
    """One request."""

    def initialize(self, face: Face) -> None:  # type: ignore[override]
        super().initialize(face.services)
        self.address = routes.find_address(self.request.path)
        self.call = Call(face)
        self.route: Route | None = None
        self.answer_value: Answer = None

    @property
    def is_preflight(self) -> bool:
        """Whether a browser asks what a page may send: no token comes with that."""
        return self.request.method == "OPTIONS"

    def find_methods(self) -> list[str]:
        return self.address.methods

    async def admit(self) -> None:
        if self.request.path in PUBLIC:
            raise UnknownRoute(self.nothing_here)
        if self.is_preflight:
            return
        self.call.ids = self.address.parameters
        token = find_token(self.request.headers.get("Authorization", ""), parse_query(self.request.query))
        self.call.visitor = await self.services.attach_tokens.visitor(token)
        self.services.limits.take_request(self.call.principal)
        self.enter(self.call.caller)
        if not self.address.routes:
            raise UnknownRoute("there is nothing at this address of the Jupyter interface")
        self.route = self.address.require(str(self.request.method))
        scopes.require(self.call.caller, self.route.scope)
        self.count(self.announced)
        await self.expect(self.call.principal.id)

    async def respond(self) -> None:
        if self.is_preflight:
            await self.send(responses.PREFLIGHT, 204)
            return
        route = self.route
        if route is None:
            raise UnknownRoute(self.nothing_here)
        if route.body is not None:
            self.call.body = decode(await self.body.whole(self.call.principal.id), route.body)
        self.answer_value = answer = await route.endpoint(self.call)
        response = as_response(answer)
        await self.send(replace(response, headers={**self._page_headers(), **response.headers}), route.status)

    def _page_headers(self) -> dict[str, str]:
        return responses.OPEN_TO_PAGES if "Origin" in self.request.headers else {}

    def describe_error(self, error: GatewayError) -> ErrorResponse:
        known = self.call.principal.is_known
        return responses.describe_error(error, open_to_pages=known and "Origin" in self.request.headers)

    def record_call(self) -> CallRecord | None:
        """A browser's preflight and VS Code's look at `/` are not recorded: no token comes with them."""
        if self.request.path in PUBLIC or self.is_preflight:
            return None
        event = self.route.event if self.route is not None else UNKNOWN_ROUTE
        read_only = is_read_only(self.request.method)
        return records.describe_call(self.call, event, read_only=read_only, answer=self.answer_value)
