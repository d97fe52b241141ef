"""The socket of a kernel: every channel of it in one WebSocket, in the framing that the client has asked for.

Who may open one is decided before the handshake, by the token; then the origin does not matter, for no browser sends a
token by itself. The socket reads a message when the one before was taken, and asks for the next one to send when the
client has taken the one before, so what waits for a slow client is in the session's ring, which has a bound.
"""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from functools import cached_property
from http import HTTPStatus
from typing import Any, Final, cast

import structlog
from tornado.http1connection import HTTP1Connection
from tornado.websocket import WebSocketClosedError, WebSocketHandler

from kernel_gateway.client_address import MARK
from kernel_gateway.errors import GatewayError, InvalidRequest, NotFound, SessionTerminated, ShuttingDown, Unauthorized
from kernel_gateway.faces import scopes
from kernel_gateway.faces.audit import Problem, take_record
from kernel_gateway.faces.calls import parse_query
from kernel_gateway.faces.handler import (
    as_gateway_error,
    set_default_headers,
    translate_tornado_error,
    write_error_response,
)
from kernel_gateway.faces.jupyter import delivery, framing, records, responses
from kernel_gateway.faces.jupyter.calls import Call, Face, within_reach
from kernel_gateway.faces.jupyter.credentials import find_client_session, find_token
from kernel_gateway.faces.jupyter.frame_writer import FrameWriter
from kernel_gateway.faces.jupyter.routes import CHANNELS
from kernel_gateway.faces.receiving import pause
from kernel_gateway.services.admission.open_calls import OpenCall
from kernel_gateway.services.attach.attachments import Attachment, Ended, Outgoing
from kernel_gateway.services.audit.api_call import CLIENT_GONE

log = structlog.get_logger(__name__)
FRAME_BYTES: Final = 64 * 1024
"""What a frame may have besides the message in it."""
MOST_MALFORMED: Final = 20
"""Frames without a message in them that are ignored on one socket."""
LONGEST_REASON_BYTES: Final = 120
UNANSWERED_PINGS: Final = 3
"""How many pings in a row a client may leave unanswered."""
REVOKED_SECONDS: Final = 0.5
"""How long a client whose token was revoked has to take the goodbye."""
LAST_WORDS_SECONDS: Final = 5.0
"""How long a client has to take what is sent before the end of its attachment."""
GONE, POLICY, FAILED, RESTARTING, TRY_LATER = 1000, 1008, 1011, 1012, 1013
REPLACED = 1001
CODES: Final = {
    "replaced": REPLACED,
    "session_ended": GONE,
    "draining": RESTARTING,
    "slow": TRY_LATER,
    "closed": GONE,
}
"""What clients do at a code: after 1000 and 1001 they stay away, after any other they come back."""


class ChannelsHandler(WebSocketHandler):
    """One connection of a client's."""

    def initialize(self, face: Face) -> None:
        self.face = face
        self.services = face.services
        self.call = Call(face)
        self._token = ""
        self._client_session = ""
        self._attachment: Attachment | None = None
        self._outlet: FrameWriter | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._malformed = 0
        self._gone = False
        self._open_call: OpenCall | None = None
        self.revoked = False
        self._unanswered = 0
        self._opened = 0.0

    @cached_property
    def request_id(self) -> str:
        """The connection's name in logs and the audit log."""
        return str(uuid.uuid4())

    @property
    def max_message_size(self) -> int:
        """Read by tornado: a larger message ends the connection with 1009."""
        return self.services.settings.attach_message_bytes + FRAME_BYTES

    @property
    def is_v1(self) -> bool:
        return self.selected_subprotocol == framing.V1

    def set_default_headers(self) -> None:
        """No word about the server; nothing is cached or guessed at."""
        set_default_headers(self, self.request_id)

    def finish(self, chunk: str | bytes | dict[Any, Any] | None = None) -> asyncio.Future[None]:
        """Called with the end of the handshake. What a gateway passed on and is no socket is its connection's last."""
        if MARK in self.request.headers and self.get_status() != HTTPStatus.SWITCHING_PROTOCOLS:
            cast("HTTP1Connection", self.request.connection)._disconnect_on_finish = True
        return super().finish(chunk)

    def compute_etag(self) -> None:
        """No entity tags: nothing here is cached."""

    def check_origin(self, origin: str) -> bool:
        """Called by tornado once the token is found to count: no browser sends one by itself."""
        return True

    def get_compression_options(self) -> None:
        """Called by tornado; no compression: it costs memory and time for each socket."""

    def select_subprotocol(self, subprotocols: list[str]) -> str | None:
        """Called by tornado with what the client offers; the legacy framing has no name."""
        return framing.V1 if framing.V1 in subprotocols else None

    async def get(self, session_id: str) -> None:
        """Called by tornado: refuse, or shake hands and stay until the connection ends."""
        try:
            await self._admit(session_id)
        except Exception as error:
            await pause(self.services, self.request, error)
            self._refuse(as_gateway_error(error, self.request_id))
            return
        if not self._gone:  # else tornado would open what it will not close a second time
            await super().get(session_id)

    async def _admit(self, session_id: str) -> None:
        request, services = self.request, self.services
        query = parse_query(request.query)
        self.call.ids = {"session_id": session_id}
        self._token = find_token(request.headers.get("Authorization", ""), query)
        self.call.visitor = await services.attach_tokens.visitor(self._token)
        services.limits.take_request(self.call.principal)
        scopes.require(self.call.caller, CHANNELS.scope)
        self._open_call = services.open_calls.enter(self.call.caller, self._revoke)
        if not services.readiness.accepting:
            raise ShuttingDown("the service is shutting down; connect again in a moment")
        try:
            await services.registry.require(self.call.principal, within_reach(self.call.visitor, session_id))
        except SessionTerminated as error:
            raise NotFound(error.message) from None
        self._client_session = find_client_session(query, self.request_id)
        self._require_upgrade()

    def _require_upgrade(self) -> None:
        headers = self.request.headers
        connection = {word.strip().lower() for word in headers.get("Connection", "").split(",")}
        if headers.get("Upgrade", "").lower() != "websocket" or "upgrade" not in connection:
            raise InvalidRequest("this address takes WebSocket connections only")

    def _refuse(self, error: GatewayError) -> None:
        self._detach()
        self._write_refusal(error)
        self._record(CHANNELS.event, problem=Problem(error.code, error.message))

    def _write_refusal(self, error: GatewayError) -> None:
        open_to_pages = self.call.principal.is_known and "Origin" in self.request.headers
        write_error_response(self, responses.describe_error(error, open_to_pages=open_to_pages))
        self.finish()

    def _record(self, event: str, *, problem: Problem | None = None, seconds: float | None = None) -> None:
        take_record(
            self.services,
            self.request,
            records.describe_call(self.call, event, read_only=False),
            request_id=self.request_id,
            status=self.get_status(),
            problem=problem or Problem(),
            seconds=self.request.request_time() if seconds is None else seconds,
        )

    async def open(self, *_arguments: str, **_named: str) -> None:
        """Called by tornado after the handshake; the client's messages are read when this returns."""
        loop, session_id = asyncio.get_running_loop(), self.call.ids["session_id"]
        self.set_nodelay(True)
        protocol: Any = self.ws_connection
        self._outlet = FrameWriter(protocol, protocol.stream, binary=self.is_v1)
        self._opened = loop.time()
        self._record(CHANNELS.event)
        try:
            attachments = self.services.attachments
            self._attachment = await attachments.open(self.call.visitor, session_id, self._client_session)
        except GatewayError as error:
            gone = isinstance(error, NotFound | SessionTerminated)
            self._hang_up(GONE if gone else TRY_LATER, error.message)
            return
        if self.revoked:
            self._detach()
            return
        spawn = self.services.background.spawn
        delivery_task = spawn(self._deliver(self._attachment), f"delivery {self.request_id}")
        watch = spawn(self._watch(self._attachment, delivery_task), f"watch {self.request_id}")
        self._tasks = [delivery_task, watch]

    async def on_message(self, message: str | bytes) -> None:
        """Called by tornado with each message; the next one is read when this returns."""
        self._unanswered = 0
        attachment = self._attachment
        if attachment is None:
            return
        try:
            await attachment.send(framing.unpack_v1(message) if self.is_v1 else framing.unpack_legacy(message))
        except framing.MalformedFrame as error:
            self._ignore(str(error))
        except GatewayError:
            return  # counted and logged where it was refused

    def _ignore(self, why: str) -> None:
        """One frame that is none is passed over; many are not."""
        self._malformed += 1
        log.info("jupyter_frame_ignored", session=self.call.ids["session_id"], why=why, count=self._malformed)
        if self._malformed > MOST_MALFORMED:
            self._hang_up(POLICY, f"more than {MOST_MALFORMED} frames without a message")

    def on_pong(self, data: bytes) -> None:
        """Called by tornado: the client is there."""
        self._unanswered = 0

    def on_ping(self, data: bytes) -> None:
        """Called by tornado, which answers it: the client is there."""
        self._unanswered = 0

    async def _deliver(self, attachment: Attachment) -> None:
        """Send what comes, as fast as the client takes it."""
        outlet = self._outlet
        if outlet is None:
            return
        with contextlib.suppress(WebSocketClosedError):
            async with contextlib.aclosing(attachment.follow()) as messages:  # type: ignore[type-var]
                async for outgoing in messages:
                    frame = self._frame(outgoing)
                    if frame is not None:
                        await outlet.put(frame)
            await outlet.drain()

    def _frame(self, outgoing: Outgoing) -> list[bytes] | None:
        if self.is_v1:
            return delivery.frame_v1(outgoing.channel, outgoing.message)
        where = f"the session's notebook has it, /v1/sessions/{self.call.ids['session_id']}/notebook"
        return delivery.frame_legacy(outgoing.channel, outgoing.message, where)

    async def _watch(self, attachment: Attachment, delivering: asyncio.Task[None]) -> None:
        """Ping, and end the connection when its attachment, its token or its client is no more."""
        over = asyncio.ensure_future(attachment.wait_ended())
        try:
            while not over.done():
                await asyncio.wait({over, delivering}, timeout=self.services.settings.attach_ping_seconds)
                if delivering.done() and not over.done():
                    self._give_up(delivering)
                    return
                if not over.done() and not await self._may_stay():
                    return
            await asyncio.wait({delivering}, timeout=LAST_WORDS_SECONDS)
            self._part(over.result())
        finally:
            over.cancel()

    def _give_up(self, delivering: asyncio.Task[None]) -> None:
        """The delivery has ended before the attachment: the client is gone, or there is a defect."""
        if not delivering.cancelled() and (error := delivering.exception()) is not None:
            log.error("jupyter_delivery_failed", request_id=self.request_id, exc_info=error)
        self._hang_up(FAILED, "an error of the service's")

    def _session_ends(self) -> bool:
        """Whether the token is no longer valid because its session ends: the end of the attachment says so soon."""
        live = self.services.registry.find(self.call.principal, self.call.ids["session_id"])
        return live is None or live.ending is not None

    async def _may_stay(self) -> bool:
        """Whether the client still answers and its token still counts; it is pinged, or told to go."""
        # Counted, not timed: while the service itself stands still it pings nobody, and reads no answer.
        if self._unanswered >= UNANSWERED_PINGS:
            self._hang_up(TRY_LATER, "the client does not answer")
            return False
        try:
            await self.services.attach_tokens.visitor(self._token)
            self.ping()
            self._unanswered += 1
        except Unauthorized:
            if self._session_ends():
                return True
            self._hang_up(POLICY, "the token counts no longer")
            return False
        except WebSocketClosedError:
            return False
        except GatewayError as error:  # the database is away: the token is looked at again next time
            log.warning("jupyter_token_not_looked_at", error=error.code)
        return True

    def _part(self, ended: Ended) -> None:
        words = {"replaced": "another connection took its place", "slow": "the client reads too slowly"}
        self._hang_up(CODES.get(ended.reason, FAILED), ended.detail or words.get(ended.reason, ended.reason))

    def _hang_up(self, code: int, why: str) -> None:
        """Say goodbye; tornado drops the connection when the client does not answer within 5 s."""
        self.close(code, why.encode()[:LONGEST_REASON_BYTES].decode("utf-8", "ignore"))

    def _revoke(self) -> None:
        """The credential counts no longer: nothing more is sent or taken, and the client has a moment to hear why."""
        self.revoked = True
        self._detach()
        if not self._opened:  # the handshake is still to come
            self._gone = True
            self.request.connection.stream.close()  # type: ignore[union-attr]
            return
        protocol: Any = self.ws_connection
        self._hang_up(POLICY, "the token counts no longer")
        if protocol is not None:
            asyncio.get_running_loop().call_later(REVOKED_SECONDS, protocol.stream.close)

    def _detach(self) -> None:
        """End what carries messages to and fro; doing it again does nothing."""
        if self._open_call is not None:
            self.services.open_calls.leave(self._open_call)
        for task in self._tasks:
            task.cancel()
        attachment, self._attachment = self._attachment, None
        if attachment is not None:
            self.services.background.spawn(attachment.aclose(), f"end of {self.request_id}")

    def on_close(self) -> None:
        """Called by tornado once, when the connection is over, also when that is before the handshake."""
        self._gone = True
        self._detach()
        if not self._opened:
            self._record(CHANNELS.event, problem=Problem(CLIENT_GONE, "the client left before the handshake"))
            return
        self._record(records.CLOSED, seconds=asyncio.get_running_loop().time() - self._opened)

    def write_error(self, status_code: int, **kwargs: Any) -> None:
        """Called by tornado for errors of its own, as a method that is not GET."""
        method, methods = str(self.request.method), [CHANNELS.method]
        error = translate_tornado_error(status_code, kwargs.get("exc_info"), method, methods, "")
        self._write_refusal(as_gateway_error(error, self.request_id))

    def log_exception(self, *exc_info: Any) -> None:
        """Called by tornado for what it catches; its own line would hold the address with the token."""
        log.error("jupyter_socket_failed", request_id=self.request_id, error=getattr(exc_info[0], "__name__", ""))
