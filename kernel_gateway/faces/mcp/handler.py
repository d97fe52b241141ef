"""The tornado handlers of this face: messages by POST, the end of a session by DELETE, and where tokens come from.

Nothing is read for a caller who is not authenticated, nor for a web page of another origin. The transport:
https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#streamable-http
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qs, urlsplit

from kernel_gateway.errors import Forbidden, GatewayError, InvalidRequest, NotFound, ShuttingDown
from kernel_gateway.faces import scopes
from kernel_gateway.faces.audit import UNKNOWN_ROUTE, CallRecord
from kernel_gateway.faces.errors import MethodNotAllowed
from kernel_gateway.faces.handler import FaceHandler, as_gateway_error, make_error_headers
from kernel_gateway.faces.mcp.elsewhere import TOKEN
from kernel_gateway.faces.mcp.sessions import McpSession, McpSessions
from kernel_gateway.faces.responses import ErrorResponse, Response, Stream
from kernel_gateway.identity.principal import ANONYMOUS, Caller
from kernel_gateway.services.admission.fair_shares import Share
from kernel_gateway.services.audit.api_call import MCP
from sandcell.mcp import messages
from sandcell.mcp.conversation import Send
from sandcell.mcp.messages import Message, Notification, Request, RpcError
from sandcell.tools.definitions import BY_NAME, DEFAULT_SESSION

if TYPE_CHECKING:
    from kernel_gateway.services.composition import Services

PATH: Final = "/mcp"
METADATA_PATH: Final = "/.well-known/oauth-protected-resource"
"""As RFC 9728 has it; with `/mcp` behind it, it is the same."""
METHODS: Final = ["DELETE", "POST"]
SESSION_HEADER: Final = "Mcp-Session-Id"
VERSION_HEADER: Final = "MCP-Protocol-Version"
EVENTS: Final = "text/event-stream"
MOST_MESSAGE_BYTES: Final = 50_000_000
"""One message, as a file that is written."""
MOST_WAITING: Final = 100
"""Notifications that wait for a client that reads slowly; further ones are dropped, the answer never is."""
HOLD_SECONDS: Final = 10.0
"""A request without progress to tell is answered with JSON if it is done by then, else with an event stream."""
HEARTBEAT: Final = b": still here\n\n"
HEARTBEAT_SECONDS: Final = 15.0
UNSUPPORTED_VERSION: Final = -32022
MOST_TOKEN_CHARACTERS: Final = 512
SERVER_ERROR: Final = -32000
"""Errors of the transport, in JSON-RPC's words."""
ENVIRONMENT: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")


class McpHandler(FaceHandler):
    """One request of the transport."""

    nothing_here = "there is nothing at this address"
    gone_message = "the client left before it had its answer; what was begun goes on"

    def initialize(self, services: Services, sessions: McpSessions) -> None:  # type: ignore[override]
        super().initialize(services)
        self._sessions = sessions
        self._token = ""
        self._caller: Caller | None = None
        self._message: Message | None = None
        self._session: McpSession | None = None

    def find_methods(self) -> list[str]:
        return METHODS

    async def admit(self) -> None:
        self._require_origin()
        scheme, _, token = self.request.headers.get("Authorization", "").partition(" ")
        usable = scheme.lower() == "bearer" and len(token) <= MOST_TOKEN_CHARACTERS
        self._token = token.strip() if usable else ""
        self._caller = caller = await self.services.identity.authenticate(self._token)
        self.services.limits.take_request(caller.principal)
        self.enter(caller)
        if self.request.method not in METHODS:
            raise MethodNotAllowed(str(self.request.method)[:32], METHODS)
        version = self.request.headers.get(VERSION_HEADER, messages.VERSIONS[-1])
        if version not in messages.VERSIONS:
            known = ", ".join(messages.VERSIONS)
            raise InvalidRequest(f"the protocol's revisions here are {known}", field=VERSION_HEADER)
        self.most_bytes = MOST_MESSAGE_BYTES
        self.count(self.announced)
        await self.expect(caller.principal.id)

    def _require_origin(self) -> None:
        """A page of another origin has no business here, whatever it knows; programs send no Origin."""
        origin = self.request.headers.get("Origin")
        if origin is None:
            return
        allowed = [each for each in re.split(r"[,\s]+", self.services.settings.mcp_origins) if each]
        if urlsplit(origin).netloc.lower() != self.request.host.lower() and origin not in allowed:
            raise Forbidden("requests of this web page's origin are not taken: see the setting mcp_origins")

    async def respond(self) -> None:
        caller = self._caller
        if caller is None:
            raise NotFound(self.nothing_here)
        try:
            await self.send(await self._answer(caller), 200)
        except asyncio.CancelledError:
            if not self.gone or self.working is None:
                raise
            self.working.uncancel()  # by `on_connection_close`: the client left, and the service goes on
            self.note_client_gone()

    async def _answer(self, caller: Caller) -> Response:
        if self.request.method == "DELETE":
            scopes.require(caller, scopes.find_mcp_scope("DELETE"))
            self._sessions.end(self._find_session(caller))
            return Response(status=204)
        data = await self.body.whole(caller.principal.id)
        try:
            self._message = message = messages.parse(data)
        except RpcError as error:
            return Response(messages.make_error(None, error), 400)
        self.body.note_decoded()
        scopes.require(caller, scopes.find_mcp_scope(message.method))
        if isinstance(message, Notification):
            self._find_session(caller).conversation.note(message)
            return Response(status=202)
        return await self._answer_request(caller, message)

    def _find_session(self, caller: Caller) -> McpSession:
        given = self.request.headers.get(SESSION_HEADER)
        if not given:
            raise InvalidRequest(f"{SESSION_HEADER} is missing: a session begins with initialize")
        self._session = session = self._sessions.require(caller.principal, given)
        session.backend.token = self._token
        return session

    async def _answer_request(self, caller: Caller, request: Request) -> Response:
        headers: dict[str, str] = {}
        if request.method == "initialize" and SESSION_HEADER not in self.request.headers:
            self._session = session = self._sessions.begin(caller.principal, self._token, self._find_environment())
            headers[SESSION_HEADER] = session.id
        else:
            session = self._find_session(caller)
        if request.method == "tools/call":
            self.services.limits.take_invocation(caller.principal)
        notifications: asyncio.Queue[dict[str, Any]] = asyncio.Queue(MOST_WAITING)

        async def send(notification: dict[str, Any]) -> None:
            if not notifications.full():
                notifications.put_nowait(notification)

        held = self.body.hand_over()
        work = self.services.background.spawn(self._work(session, request, send, held), f"MCP {request.method[:40]}")
        streams = EVENTS in self.request.headers.get("Accept", "")
        first = asyncio.ensure_future(notifications.get())
        try:
            waits = {work, first} if streams else {work}
            await asyncio.wait(waits, timeout=HOLD_SECONDS if streams else None, return_when=asyncio.FIRST_COMPLETED)
            if work.cancelled():
                raise ShuttingDown("the service is ending")
            if work.done():
                return Response(work.result(), headers=headers)
        finally:
            told = [first.result()] if first.done() and not first.cancelled() else []
            first.cancel()
        headers |= {"Content-Type": EVENTS, "X-Accel-Buffering": "no"}
        return Response(Stream(stream_answer(told, notifications, work)), headers=headers)

    async def _work(self, session: McpSession, request: Request, send: Send, held: Share | None) -> dict[str, Any]:
        """The answer, whether or not the client is still there: that it left is no cancellation.

        `held` is the memory of a large message, which is released with it.
        """
        self._sessions.enter(session)
        TOKEN.set(self._token)  # of this task alone, and of those that it starts
        try:
            return await session.conversation.answer(request, send)
        except Exception as error:
            found = as_gateway_error(error, self.request_id)
            return messages.make_error(request.id, RpcError(messages.INTERNAL_ERROR, found.message))
        finally:
            self._sessions.leave(session)
            if held is not None:
                held.release()

    def _find_environment(self) -> str | None:
        """What the address asks for: `/mcp?environment=data`."""
        given = parse_qs(self.request.query).get("environment", [""])[0]
        if given and not ENVIRONMENT.fullmatch(given):
            raise InvalidRequest("environment is an environment's name or id", field="environment")
        return given or None

    def on_connection_close(self) -> None:
        """Called by tornado when the client is gone: nobody waits any more, and what runs goes on."""
        super().on_connection_close()
        if self.working is not None:
            self.working.cancel()

    def describe_error(self, error: GatewayError) -> ErrorResponse:
        headers = make_error_headers(error)
        if "WWW-Authenticate" in headers:
            headers["WWW-Authenticate"] = f'Bearer resource_metadata="{find_base(self)}{METADATA_PATH}{PATH}"'
        request_id = self._message.id if isinstance(self._message, Request) else None
        data: dict[str, Any] = {"code": error.code}
        code = SERVER_ERROR
        if error.details.get("field") == VERSION_HEADER:
            code = UNSUPPORTED_VERSION
            data |= {"supported": list(messages.VERSIONS), "requested": self.request.headers[VERSION_HEADER][:32]}
        body = messages.encode(messages.make_error(request_id, RpcError(code, error.message, data)))
        return ErrorResponse(body, error.status, headers, code=error.code, message=error.message)

    def record_call(self) -> CallRecord | None:
        """The message's method, and of a call the tool's name; no code, no content of files."""
        message, principal = self._message, self._caller.principal if self._caller is not None else ANONYMOUS
        method = message.method if message is not None else "DELETE" if self.request.method == "DELETE" else ""
        parameters: dict[str, Any] = {}
        if method == "tools/call" and message is not None:
            parameters["tool"] = str(message.params.get("name"))
        live = self._session.conversation.toolbox.sessions.live if self._session is not None else {}
        session = live.get(DEFAULT_SESSION)
        return CallRecord(
            event=EVENT_NAMES.get(method, UNKNOWN_ROUTE),
            source=MCP,
            read_only=_is_read_only(method, parameters.get("tool", "")),
            principal=principal,
            session_id=session.id if session is not None else None,
            parameters=parameters,
        )


EVENT_NAMES: Final = {
    "initialize": "McpInitialize",
    "ping": "McpPing",
    "tools/list": "McpListTools",
    "tools/call": "McpCallTool",
    "resources/list": "McpListResources",
    "resources/templates/list": "McpListResourceTemplates",
    "resources/read": "McpReadResource",
    "notifications/initialized": "McpInitialized",
    "notifications/cancelled": "McpCancel",
    "DELETE": "McpEndSession",
}
"""What calls are named in the audit log, by the method of their message."""


def _is_read_only(method: str, tool: str) -> bool:
    if method == "tools/call":
        return tool in BY_NAME and BY_NAME[tool].read_only
    return method not in ("DELETE", "notifications/cancelled")


async def stream_answer(
    told: list[dict[str, Any]], notifications: asyncio.Queue[dict[str, Any]], work: asyncio.Task[dict[str, Any]]
) -> AsyncIterator[bytes]:
    """Notifications as they come, and the answer; a comment now and then, to notice a dead connection."""
    yield b""
    for message in told:
        yield frame(message)
    upcoming = asyncio.ensure_future(notifications.get())
    try:
        while not work.done():
            done, _ = await asyncio.wait(
                {upcoming, work}, timeout=HEARTBEAT_SECONDS, return_when=asyncio.FIRST_COMPLETED
            )
            if upcoming in done:
                yield frame(upcoming.result())
                upcoming = asyncio.ensure_future(notifications.get())
            elif not done:
                yield HEARTBEAT
        yield frame(work.result())
    finally:
        upcoming.cancel()


def frame(message: dict[str, Any]) -> bytes:
    """A message as an event; JSON never has a line break of its own."""
    return b"event: message\ndata: %s\n\n" % messages.encode(message)


def find_base(handler: FaceHandler) -> str:
    """The address that the client knows the service by."""
    return f"{handler.request.protocol}://{handler.request.host}"


class MetadataHandler(FaceHandler):
    """Where tokens for `/mcp` come from, for everybody: OAuth's protected-resource metadata (RFC 9728)."""

    def find_methods(self) -> list[str]:
        return ["GET"]

    async def admit(self) -> None:
        if self.request.method != "GET":
            raise MethodNotAllowed(str(self.request.method)[:32], ["GET"])

    async def respond(self) -> None:
        servers = [each for each in re.split(r"[,\s]+", self.services.settings.mcp_authorization_servers) if each]
        about: dict[str, Any] = {
            "resource": find_base(self) + PATH,
            "resource_name": "Sandcell",
            "bearer_methods_supported": ["header"],
            "scopes_supported": ["read", "run"],
        }
        await self.send(about | ({"authorization_servers": servers} if servers else {}), 200)

    def describe_error(self, error: GatewayError) -> ErrorResponse:
        body = messages.encode({"error": error.code, "error_description": error.message})
        return ErrorResponse(body, error.status, make_error_headers(error), code=error.code, message=error.message)

    def record_call(self) -> CallRecord | None:
        """Not recorded: it is the same for everybody."""
        return None
