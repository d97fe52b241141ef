"""The one tornado handler of this face's requests: admits, takes a small body, calls the endpoint, answers.

`/` and `/tree` are nothing, and say so to everybody: to VS Code that means that no password is asked for.
"""

from __future__ import annotations

from typing import Any

from kernel_gateway.errors import GatewayError
from kernel_gateway.faces import answering, scopes
from kernel_gateway.faces.errors import MethodNotAllowed, UnknownRoute
from kernel_gateway.faces.json_bodies import decode
from kernel_gateway.faces.jupyter import audited, replies, routes
from kernel_gateway.faces.jupyter.calls import Call, Face
from kernel_gateway.faces.jupyter.credentials import parameters, token_of
from kernel_gateway.faces.jupyter.routes import Route
from kernel_gateway.faces.receiving import ReceivingHandler, ours
from kernel_gateway.services.attach.attachments import AttachedPrincipal

PUBLIC = ("/", "/tree", "/tree/")


async def visitor_of(face: Face, request: Any) -> tuple[AttachedPrincipal, str]:
    """Who sends this request, and the token; raises Unauthorized, InvalidRequest."""
    token = token_of(request.headers.get("Authorization", ""), parameters(request.query))
    return await face.services.attach_tokens.visitor(token), token


class JupyterHandler(ReceivingHandler):
    """One request."""

    def initialize(self, face: Face) -> None:  # type: ignore[override]
        super().initialize(face.services)
        self.face = face
        self.call = Call(face)
        self.route: Route | None = None
        self.error: GatewayError | None = None
        self.result: Any = None

    def set_default_headers(self) -> None:
        """No word about the server; nothing is cached or guessed at."""
        answering.default_headers(self)

    @property
    def preflight(self) -> bool:
        """Whether a browser asks what a page may send: no token comes with that."""
        return self.request.method == "OPTIONS"

    @property
    def allowed(self) -> list[str]:
        return sorted(routes.at(self.request.path)[0])

    async def admit(self) -> None:
        if self.request.path in PUBLIC:
            raise UnknownRoute("there is nothing at this address")
        if self.preflight:
            return
        found, ids = routes.at(self.request.path)
        self.call.ids = ids
        self.call.visitor, _ = await visitor_of(self.face, self.request)
        self.services.limits.take_request(self.call.principal)
        self.enter(self.call.caller)
        if not found:
            raise UnknownRoute("there is nothing at this address of the Jupyter interface")
        if self.request.method not in found:
            raise MethodNotAllowed(str(self.request.method), sorted(found))
        self.route = found[str(self.request.method)]
        scopes.require(self.call.caller, self.route.scope)
        self.count(self.announced)
        await self.expect(self.call.principal.id)

    async def respond(self) -> None:
        if self.preflight:
            replies.preflight(self)
            return
        route = self.route
        if route is None:
            raise UnknownRoute("there is nothing at this address")
        if route.body is not None:
            self.call.body = decode(await self.body.whole(self.call.principal.id), route.body)
        self.result = await route.endpoint(self.call)
        replies.open_to_pages(self)
        replies.send(self, self.result, route.status, self.call.location)

    def say(self, error: Exception) -> None:
        replies.write_error(self, ours(error, self.request_id))

    def fail(self, error: Exception) -> None:
        self.clear()
        self.say(error)
        self.finish()

    def ours(self, error: Exception) -> GatewayError:
        return ours(error, self.request_id)

    def audit(self) -> None:
        if self.request.path in PUBLIC or self.preflight:
            return
        code, message = audited.problem(self)
        event = self.route.event if self.route is not None else audited.UNKNOWN
        audited.record(self, event, code=code, message=message, answer=self.result)

    def write_error(self, status_code: int, **kwargs: Any) -> None:
        """Called by tornado for errors of its own, before the body is read: it closes the connection afterwards."""
        self.set_header("Connection", "close")
        replies.write_error(self, replies.of_tornado(self, status_code, kwargs.get("exc_info")))
        self.finish()
