"""How every face takes a request: it is admitted, its body taken as it comes, or it is refused.

A refused body is answered before it is read, and then thrown away for a while, so that a client that is still sending
gets to see the answer. Unlike tornado's own limits, these answer in the face's words. What an answer is and how calls
are recorded is in `faces.handler`, which stands on this.
"""

from __future__ import annotations

import asyncio
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

import structlog
import tornado.web
from tornado.http1connection import HTTP1Connection
from tornado.httputil import HTTPServerRequest

from kernel_gateway.errors import PayloadTooLarge, Unauthorized
from kernel_gateway.faces.body import SMALL_BODY, Body
from kernel_gateway.faces.connections import find_network
from kernel_gateway.faces.errors import BodyTooSlow
from kernel_gateway.identity.sigv4 import SignatureProblem
from kernels.random_ids import new_id

if TYPE_CHECKING:
    from kernel_gateway.identity.principal import Caller
    from kernel_gateway.services.admission.open_calls import OpenCall
    from kernel_gateway.services.composition import Services

log = structlog.get_logger(__name__)
LINGER_SECONDS = 5.0
"""How long a refused body may still come; then the connection is closed."""
UNCOUNTED = 1 << 62
LENGTH_DIGITS = 18
"""Of an announced length that are read."""
STALL_SECONDS = 60.0
"""How long a client may leave what it was sent unread before the connection is closed."""


class ClientStalled(Exception):
    """The client does not read what it asked for."""


@tornado.web.stream_request_body
class ReceivingHandler(tornado.web.RequestHandler):
    """One request. `most_bytes` bounds its body: unless a face says otherwise what is put up with where none is taken.

    A body that is refused while no more than `SMALL_BODY` of it is to come is read first, which keeps the connection.
    `begun`: the head of the answer may be out. `gone`: the client has left. `revoked`: its credential counts no longer.
    """

    def initialize(self, services: Services) -> None:
        self.services = services
        self.refusal: Exception | None = None
        self.answered = False
        self._prepared = False
        self.begun = False
        self.gone = False
        self._finished_here = False
        self.most_bytes = SMALL_BODY
        self.received = 0
        self._timer: asyncio.TimerHandle | None = None
        self.working: asyncio.Task[Any] | None = None
        self._over = False
        self._patience = 0.0
        self._waiting_since = 0.0
        self._open_call: OpenCall | None = None
        self.revoked = False

    @cached_property
    def request_id(self) -> str:
        """The request's name in answers, logs and the audit log."""
        return new_id()

    @cached_property
    def body(self) -> Body:
        """The request's body, where it is not handed on as it comes."""
        return Body(self.services.body_room)

    async def admit(self) -> None:
        """Called before the body is read: decide whether it will be; raises what the request is refused with."""
        raise NotImplementedError

    async def take(self, chunk: bytes) -> None:
        """Called with each piece of the body; the next one is read when this returns."""
        await self.body.add(chunk)

    async def abandon(self) -> None:
        """Called when the body is refused while it arrives: release what is there of it."""

    def drop_body(self) -> None:
        """Called when the body will not come to its end, or is not wanted: release it, without waiting."""
        self.body.release()

    async def respond(self) -> None:
        """Called when the body is complete: answer; what is raised goes to `fail`."""
        raise NotImplementedError

    def write_refusal(self, error: Exception) -> None:
        """Write an error's status, headers and body, without finishing."""
        raise NotImplementedError

    def fail(self, error: Exception) -> None:
        """Finish with an error, or cut the answer off when it has begun."""
        raise NotImplementedError

    def translate_error(self, error: Exception) -> Exception:
        """Any error as one that `write_refusal` knows."""
        raise NotImplementedError

    def audit(self) -> None:
        """Called once, when the request is over, whatever came of it: take its record. Nothing is answered any more."""
        raise NotImplementedError

    async def push(self, data: bytes) -> None:
        """Send a piece of an answer and wait until it is taken; raises ClientStalled, and StreamClosedError."""
        self.begun = True
        self.write(data)
        try:
            async with asyncio.timeout(STALL_SECONDS):
                await self.flush()
        except TimeoutError:
            raise ClientStalled from None

    def compute_etag(self) -> None:
        """No entity tags: nothing here is cached."""

    async def prepare(self) -> None:
        """Called by tornado when the headers are there and the body is not."""
        # `count` bounds the body: tornado would close the connection without an answer in the face's words.
        self._connection.set_max_body_size(UNCOUNTED)
        try:
            await self.admit()
        except Exception as error:
            await pause(self.services, self.request, error)
            self.refuse(self.translate_error(error))
        self._prepared = True
        if self.refusal is None and self.has_body:
            self._patience = self.services.settings.body_silence_seconds
            self._wait_for_more()

    @property
    def _connection(self) -> HTTP1Connection:
        """The service speaks HTTP/1.1 alone."""
        return cast("HTTP1Connection", self.request.connection)

    def close_connection(self) -> None:
        """Hang up on the client: it sees that the answer has not come to its end."""
        self._connection.stream.close()

    @property
    def announced(self) -> int:
        """The body's length as announced; 0 when it is not."""
        return read_length(self.request.headers.get("Content-Length", ""))

    @property
    def has_body(self) -> bool:
        return self.announced > 0 or "Transfer-Encoding" in self.request.headers

    @property
    def _awaits_word(self) -> bool:
        """Whether the client sends its body only when it is asked to, which tornado does when `prepare` returns."""
        return not self._prepared and self.has_body and self.request.headers.get("Expect", "").lower() == "100-continue"

    async def expect(self, owner: str) -> None:
        """Called by `admit` once it is known who sends: wait until there is room for the body, which waits unread."""
        chunked = "Transfer-Encoding" in self.request.headers
        await self.body.expect(owner, self.most_bytes if chunked else self.announced)
        if self.gone:  # it left while it waited: nothing else would release the room it was given
            self.drop_body()

    def count(self, size: int) -> None:
        """Raises PayloadTooLarge when a body of this size is too large."""
        if size > self.most_bytes:
            raise PayloadTooLarge(f"the body is larger than {self.most_bytes:,} bytes", limit_bytes=self.most_bytes)

    async def data_received(self, chunk: bytes) -> None:
        """Called by tornado with each piece of the body; the next one is read when this returns."""
        if self.refusal is not None:  # thrown away: it is read only so that the client sees the answer
            return
        self._hear(len(chunk))
        self.received += len(chunk)
        try:
            self.count(self.received)
            await self.take(chunk)
        except Exception as error:
            await self.abandon()  # before the refusal: what was written of it is gone when the client hears
            self.refuse(self.translate_error(error))
        else:
            self._wait_for_more()

    def _wait_for_more(self) -> None:
        """The client's time runs; the service's own, with what has come, does not count."""
        self._waiting_since = asyncio.get_running_loop().time()
        self.arm(self._patience)

    def _hear(self, size: int) -> None:
        """Bytes give the client time again, but never more than it may be silent for: so it keeps to a least rate."""
        self.disarm()
        settings = self.services.settings
        waited = asyncio.get_running_loop().time() - self._waiting_since
        left = max(self._patience - waited, 0.0) + size / settings.body_bytes_per_second
        self._patience = min(left, settings.body_silence_seconds)

    def refuse(self, error: Exception) -> None:
        """Settle on an error; answered at once when much of the body is still to come, or none before it is asked for.

        A small rest is read first: the connection then serves the client's next request.
        """
        if self.refusal is not None:
            return
        self.refusal = error
        self.drop_body()
        self.disarm()
        chunked = "Transfer-Encoding" in self.request.headers
        if chunked or self.announced - self.received > SMALL_BODY or self._awaits_word:
            self._answer_early(error)
        elif self.has_body:
            self.arm(LINGER_SECONDS)

    def _answer_early(self, error: Exception) -> None:
        """Answer while the body is still to come, and read on for a while: closed at once, the connection would be
        reset, and the client that is still sending would never see the answer."""
        self._write_last(error)
        if self._awaits_word:  # nothing is sent after this answer; and tornado would still ask for it
            self.finish()
            return
        self.flush()  # not awaited: a client that does not read is cut off by the timer like one that goes on sending
        self._timer = asyncio.get_running_loop().call_later(LINGER_SECONDS, self._hang_up)

    def _write_last(self, error: Exception) -> None:
        """Write a refusal after which the connection ends, without finishing."""
        self.answered = True
        self.close_after_answer()
        self.write_refusal(error)

    def close_after_answer(self) -> None:
        """The answer is the last one on its connection, and says so."""
        self.set_header("Connection", "close")
        # Not for the header's sake: tornado closes when the request says so, or when the answer ends before the body.
        self._connection._disconnect_on_finish = True

    def arm(self, seconds: float) -> None:
        """Refuse the request in so many seconds, for what it is refused already or as too slow; `disarm` stops that."""
        if self.gone:
            return
        self._timer = asyncio.get_running_loop().call_later(seconds, self._refuse_slow)

    def disarm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _refuse_slow(self) -> None:
        self.drop_body()
        if self.refusal is None:  # it may still be sending, if slowly
            self.refusal = BodyTooSlow("the body did not arrive in time")
            self._answer_early(self.refusal)
            return
        self._write_last(self.refusal)
        self._hang_up()

    def _hang_up(self) -> None:
        if not self._finished_here:
            self.finish()

    async def answer(self, **_ids: str) -> None:
        """Called by tornado when the body is complete."""
        self.disarm()
        if self.answered:
            self._hang_up()
            return
        self.working = asyncio.current_task()
        try:
            if self.refusal is not None:
                raise self.refusal
            await self.respond()
        except Exception as error:
            if error is not self.refusal:  # which has been paused for already
                await pause(self.services, self.request, error)
            self.fail(error)
        finally:
            self._end()

    get = post = put = delete = patch = head = options = answer

    def on_connection_close(self) -> None:
        """Called by tornado when the client is gone; a body that has not come whole is given up."""
        # Tornado tells only this private future whether the body is complete, and with it whether `answer` is still to
        # be called: then the call is not over, and is recorded there.
        whole = self.request._body_future.done()
        super().on_connection_close()
        self.gone = True
        self.disarm()
        if self.working is None:
            self.drop_body()
        if not whole:  # tornado does nothing more with this request
            self._end()

    def on_finish(self) -> None:
        """Called by tornado when the answer is on its way."""
        self._finished_here = True
        self.disarm()
        self._end()

    def enter(self, caller: Caller) -> None:
        """The caller is known: when the credential is revoked, or its principal disabled, this request ends."""
        self._open_call = self.services.open_calls.enter(caller, self._revoke)

    def _revoke(self) -> None:
        """Close the connection as if the client had left: what only waits is cancelled, what changes goes on."""
        self.revoked = True
        self.close_connection()

    def _end(self) -> None:
        if self._over:  # the answer, the loss of the client and tornado's `on_finish` each come here, in any order
            return
        self._over = True
        self.body.release()
        if self._open_call is not None:
            self.services.open_calls.leave(self._open_call)
        try:
            self.audit()
        except Exception as error:
            log.error("audit_call_lost", request_id=self.request_id, exc_info=error)

    def log_exception(self, *_exc_info: Any) -> None:
        """What is not handled here is logged where it becomes a GatewayError, once."""


async def pause(services: Services, request: HTTPServerRequest, error: Exception) -> None:
    """After a credential that does not count: the more of them come from an address, the later they are answered."""
    if isinstance(error, Unauthorized | SignatureProblem):
        await asyncio.sleep(services.limits.pause_after_failure(find_network(request.remote_ip or "")))


def read_length(announced: str) -> int:
    """The number in a Content-Length, as tornado reads it: zeros may stand before it, and it may stand there twice.

    0 for what tornado refuses. Of an endless number the first digits are too large too.
    """
    digits = announced.partition(",")[0].lstrip("0")[:LENGTH_DIGITS]
    return int(digits) if digits.isascii() and digits.isdigit() else 0
