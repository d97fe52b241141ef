"""The one tornado handler of this face: admits a request, takes its body, calls the endpoint, answers as Google does.

The credential is one of Sandcell's tokens: as a bearer token, which is how Google's clients send the token of their
credentials, or as an API key in `x-goog-api-key`.
"""

from __future__ import annotations

from typing import Any

from tornado.iostream import StreamClosedError

from kernel_gateway.errors import GatewayError
from kernel_gateway.faces import scopes
from kernel_gateway.faces.agent_engine import errors, requests
from kernel_gateway.faces.agent_engine.calls import Call, Face
from kernel_gateway.faces.agent_engine.inputs import read_inputs
from kernel_gateway.faces.agent_engine.names import plain_path, read_place
from kernel_gateway.faces.agent_engine.table import ADDRESSES, Route
from kernel_gateway.faces.audit import UNKNOWN_ROUTE, CallRecord
from kernel_gateway.faces.errors import UnknownRoute
from kernel_gateway.faces.handler import FaceHandler
from kernel_gateway.faces.responses import Answer, ErrorResponse
from kernel_gateway.faces.routing import is_read_only
from kernel_gateway.services.audit.api_call import AGENT_ENGINE
from kernel_gateway.services.audit.parameters import select_values

MOST_BESIDE_FILES = 1_048_576
"""What a body may have besides the files in it, and the most of one that carries none."""
MOST_TOKEN_CHARACTERS = 512


class AgentEngineHandler(FaceHandler):
    """One request."""

    nothing_here = "there is nothing at this address; docs/reference/agent-engine.md lists what there is"
    gone_message = "the client left before it had its answer; what was begun goes on"

    def initialize(self, face: Face) -> None:  # type: ignore[override]
        super().initialize(face.services)
        self.address = ADDRESSES.find(plain_path(self.request.path))
        self.route: Route | None = None
        self.call = Call(face)
        self.answer_value: Answer = None
        self._recorded: dict[str, Any] | None = None

    def find_methods(self) -> list[str]:
        return self.address.methods

    async def admit(self) -> None:
        self.call.token = self._find_token()
        self.call.caller = await self.services.identity.authenticate(self.call.token)
        self.services.limits.take_request(self.call.principal)
        self.enter(self.call.caller)
        if not self.address.routes:
            raise UnknownRoute(self.nothing_here)
        self.route = route = self.address.require(str(self.request.method))
        scopes.require(self.call.caller, route.scope)
        self.call.ids = dict(self.address.parameters)
        self.call.place = read_place(self.call.ids)
        self.call.query = requests.read_query(self.request.query)
        self.call.forget_body = self.body.release
        files = self.services.settings.payload_bytes // 3 * 4 if route.carries_files else 0
        self.most_bytes = files + MOST_BESIDE_FILES
        self.count(self.announced)
        await self.expect(self.call.principal.id)

    def _find_token(self) -> str:
        headers = self.request.headers
        scheme, _, token = headers.get("Authorization", "").partition(" ")
        if not scheme:
            token = headers.get("x-goog-api-key", "")
        elif scheme.lower() != "bearer":
            token = ""
        return token.strip() if len(token) <= MOST_TOKEN_CHARACTERS else ""

    async def respond(self) -> None:
        route = self.route
        if route is None:
            raise UnknownRoute(self.nothing_here)
        if route.body is not None:
            await self._read(route)
        self.answer_value = answer = await route.endpoint(self.call)
        try:
            await self.send(answer, route.status)
        except StreamClosedError:  # while the files of an execution went out
            self.gone = True
            self.note_client_gone()
            self.finish()

    async def _read(self, route: Route) -> None:
        body = await self.body.whole(self.call.principal.id)
        if route.carries_files:
            self.call.body = inputs = await read_inputs(body, self.services.settings.payload_bytes)
            sizes = [len(content) for _, content in inputs.files]
            command = inputs.command.command if inputs.command else None
            self._recorded = select_values({"code": inputs.code, "command": command, "files": len(sizes)})
            self._recorded["file_bytes"] = sum(sizes)
        else:
            self.call.body = requests.read_body(body, route.body)
            self._recorded = select_values(self.call.body)
        del body
        self.body.note_decoded()

    def describe_error(self, error: GatewayError) -> ErrorResponse:
        return errors.describe_error(error)

    def record_call(self) -> CallRecord:
        route, call = self.route, self.call
        answer = self.answer_value
        return CallRecord(
            event=route.event if route is not None else UNKNOWN_ROUTE,
            source=AGENT_ENGINE,
            read_only=is_read_only(self.request.method),
            principal=call.principal,
            session_id=call.session_id,
            parameters=select_values(call.ids) | (self._recorded or {}),
            answer=select_values({"name": answer["name"]}) if isinstance(answer, dict) and "done" in answer else None,
        )
