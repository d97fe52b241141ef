"""The tornado handler that those of all faces are made from: it sends answers and errors, and has calls recorded.

How a request's body is taken or refused is in `faces.receiving`. A face fills in `admit`, `respond`, `describe_error`,
`record_call` and `find_methods`. What is sent piece by piece waits for the client to take it, and not for ever. Once
its head is out an answer can only be cut off: the connection is closed, and the client sees that something is missing.
"""

from __future__ import annotations

import math
import time
from functools import lru_cache
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, ClassVar

import structlog
from tornado.httputil import HTTPHeaders, format_timestamp
from tornado.web import RequestHandler

from kernel_gateway import tracing
from kernel_gateway.client_address import MARK
from kernel_gateway.errors import (
    FileChanged,
    GatewayError,
    InternalError,
    InvalidRequest,
    LimitReached,
    Unauthorized,
    translate,
)
from kernel_gateway.faces.audit import CallRecord, Problem, take_record
from kernel_gateway.faces.connections import find_refusal
from kernel_gateway.faces.errors import MethodNotAllowed, RangeNotSatisfiable, UnknownRoute
from kernel_gateway.faces.json_bodies import encode
from kernel_gateway.faces.receiving import ReceivingHandler
from kernel_gateway.faces.responses import JSON, Answer, ErrorResponse, Response, Stream, as_response, close_iterator
from kernel_gateway.faces.routing import MOST_METHOD_CHARACTERS
from kernel_gateway.services.audit.api_call import CLIENT_GONE, REVOKED

if TYPE_CHECKING:
    from opentelemetry.trace import Span

    from kernel_gateway.services.composition import Services

CUT_OFF = "answer_cut_off"
"""The error code of a call whose answer ended before its end, though its client was there."""
CLIENT_GONE_STATUS = 499
log = structlog.get_logger(__name__)


class FaceHandler(ReceivingHandler):
    """One request. `failure` is the error that was answered, `cut_off` what ended an answer that had begun."""

    nothing_here: ClassVar[str] = "there is nothing at this address"
    gone_message: ClassVar[str] = "the client left before it had the whole answer"

    def initialize(self, services: Services) -> None:
        super().initialize(services)
        self.failure: ErrorResponse | None = None
        self.cut_off = ""
        self._span: Span | None = None

    def describe_error(self, error: GatewayError) -> ErrorResponse:
        """An error in the words of this face."""
        raise NotImplementedError

    def record_call(self) -> CallRecord | None:
        """Called once when the request is over: what the audit log keeps of it; None for what is not recorded."""
        raise NotImplementedError

    def find_methods(self) -> list[str]:
        """The methods that the address takes; none when there is nothing."""
        raise NotImplementedError

    def clear(self) -> None:
        """Called by tornado before anything else, and by `fail`: nothing is written yet.

        In place of tornado's, half of which is to put the date into words that were the same a moment ago.
        """
        self._headers = HTTPHeaders()
        self._headers["Date"] = _write_date(int(time.time()))
        self.set_default_headers()
        self._write_buffer: list[bytes] = []
        self._status_code, self._reason = HTTPStatus.OK.value, HTTPStatus.OK.phrase

    def set_default_headers(self) -> None:
        """Called by `clear` before anything else is."""
        set_default_headers(self, self.request_id)

    async def prepare(self) -> None:
        self._span = tracing.begin_request(self.request.headers)
        if MARK in self.request.headers:  # whatever it asks for, what else comes with it is no request of its gateway's
            self.close_after_answer()
        await super().prepare()

    async def send(self, answer: Answer, status: int) -> None:
        """Answer; `status` is the route's."""
        response = as_response(answer)
        body = response.body
        write_head(self, response, status)
        if isinstance(body, Stream):
            await self._send_stream(body)
        elif body is None or isinstance(body, bytes):
            self.finish(body)
        else:
            self.finish(encode(body))

    async def _send_stream(self, stream: Stream) -> None:
        left = math.inf if stream.size is None else stream.size
        try:
            while left > 0 and (piece := await anext(stream.pieces, None)) is not None:
                if len(piece) > left:  # a file that grows while it is read ends where it was said to end
                    piece = piece[: int(left)]
                left -= len(piece)
                await self.push(piece)
        finally:
            await close_iterator(stream.pieces)
        if stream.size is not None and left:
            raise FileChanged(f"the file changed while it was read: {int(left)} bytes are missing")
        self.finish()

    def translate_error(self, error: BaseException) -> Exception:
        """Any error as one that `describe_any` knows; a defect is logged under the request's id, once."""
        return as_gateway_error(error, self.request_id)

    def describe_any(self, error: Exception) -> ErrorResponse:
        """Any error in the words of this face."""
        return self.describe_error(as_gateway_error(error, self.request_id))

    def write_refusal(self, error: Exception) -> None:
        self.failure = failure = self.describe_any(error)
        write_error_response(self, failure)

    def fail(self, error: Exception) -> None:
        if not self.begun:
            self.clear()
            self.write_refusal(error)
            self.finish()
            return
        self.cut_off = type(error).__name__
        if not self.gone:
            log.warning("answer_cut_off", path=self.request.path, error=self.cut_off)
            self.close_connection()

    def on_connection_close(self) -> None:
        """Called by tornado when the client is gone, and when what it sends cannot be understood any more."""
        error = find_refusal(self._connection.stream)
        if error is not None and self.failure is None:
            self.failure = self.describe_any(error)  # in other words than the answer's, which no face has written
            self.set_status(self.failure.status)
        super().on_connection_close()

    def note_client_gone(self) -> None:
        """The status that logs show of a request whose client left; no client ever sees it."""
        self.set_status(CLIENT_GONE_STATUS, "Client Closed Request")

    def audit(self) -> None:
        record = self.record_call()
        self._end_span(record)
        if record is not None:
            take_record(
                self.services,
                self.request,
                record,
                request_id=self.request_id,
                status=self.get_status(),
                problem=self.find_problem(),
                seconds=self.request.request_time(),
            )

    def _end_span(self, record: CallRecord | None) -> None:
        method = str(self.request.method)
        attributes = {
            "http.request.method": method,
            "sandcell.request": self.request_id,
            "sandcell.session": record.session_id if record else None,
            "sandcell.principal": (record.principal.name or None) if record else None,
        }
        tracing.end_request(self._span, record.event if record else method, self.get_status(), attributes)

    def find_problem(self) -> Problem:
        """Code and message of the error that was answered, or of what kept the answer from arriving whole."""
        if self.failure is not None:
            return Problem(self.failure.code, self.failure.message)
        if self.revoked:
            return Problem(REVOKED, "the credential was revoked before the answer was whole")
        if self.gone:
            return Problem(CLIENT_GONE, self.gone_message)
        if self.cut_off:
            return Problem(CUT_OFF, f"the answer was cut off: {self.cut_off}")
        return Problem()

    def write_error(self, status_code: int, **kwargs: Any) -> None:
        """Called by tornado for errors of its own, as a method that HTTP does not know.

        That is before the body is read, which nothing here would read any more.
        """
        self.close_after_answer()
        error = translate_tornado_error(
            status_code, kwargs.get("exc_info"), str(self.request.method), self.find_methods(), self.nothing_here
        )
        self.write_refusal(error)
        self.finish()


@lru_cache(maxsize=4)
def _write_date(seconds: int) -> str:
    return format_timestamp(seconds)


def set_default_headers(handler: RequestHandler, request_id: str) -> None:
    """The headers of every answer: no word about the server; nothing is cached or guessed at."""
    handler.clear_header("Server")
    handler.set_header("X-Request-Id", request_id)
    handler.set_header("Content-Type", JSON)
    handler.set_header("Cache-Control", "no-store")
    handler.set_header("X-Content-Type-Options", "nosniff")


def write_head(handler: RequestHandler, response: Response, status: int) -> None:
    """Status and headers, without sending them."""
    handler.set_status(status if response.status is None else response.status)
    if response.body is None:
        handler.clear_header("Content-Type")
    elif isinstance(response.body, Stream) and response.body.size is not None:
        handler.set_header("Content-Length", str(response.body.size))
    for name, value in response.headers.items():
        handler.set_header(name, value)


def write_error_response(handler: RequestHandler, response: ErrorResponse) -> None:
    """Status, headers and body of an error, without sending them."""
    write_head(handler, response, response.status)
    # Said here and not left to tornado: an early refusal is flushed while the request's body is still to come.
    handler.set_header("Content-Length", str(len(response.body)))
    handler.write(response.body)


def make_error_headers(error: GatewayError) -> dict[str, str]:
    """The headers that HTTP has for some errors."""
    headers: dict[str, str] = {}
    if isinstance(error, Unauthorized):
        headers["WWW-Authenticate"] = "Bearer"
    if isinstance(error, MethodNotAllowed):
        headers["Allow"] = ", ".join(error.allowed)
    if isinstance(error, RangeNotSatisfiable):
        headers["Content-Range"] = f"bytes */{error.size}"
    if isinstance(error, LimitReached):
        headers["Retry-After"] = str(max(1, math.ceil(error.retry_after_seconds)))
    return headers


def as_gateway_error(error: BaseException, request_id: str) -> GatewayError:
    """Any error as one of the gateway's; a defect is logged under the request's id, which the answer names."""
    if isinstance(error, GatewayError):
        return error
    found = translate(error) if isinstance(error, Exception) else InternalError("interrupted")
    if not isinstance(found, InternalError):
        return found
    log.error("request_failed", request_id=request_id, exc_info=error)
    return InternalError("an internal error; the service's log has the particulars", request_id=request_id)


def translate_tornado_error(
    status: int, exc_info: Any, method: str, methods: list[str], nothing_here: str
) -> Exception:
    """An error that tornado raised itself, at an address that takes these methods."""
    error = exc_info[1] if exc_info else None
    if status == HTTPStatus.METHOD_NOT_ALLOWED and methods:
        return MethodNotAllowed(method[:MOST_METHOD_CHARACTERS], methods)
    if status in (HTTPStatus.NOT_FOUND, HTTPStatus.METHOD_NOT_ALLOWED):
        return UnknownRoute(nothing_here)
    if 400 <= status < 500:
        return InvalidRequest(HTTPStatus(status).phrase)
    return error if isinstance(error, Exception) else InternalError("an internal error")
