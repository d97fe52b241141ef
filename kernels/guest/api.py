"""The guest's HTTP face: routes under /v1, JSON in and out. README.md beside this documents them."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from tornado.iostream import StreamClosedError
from tornado.web import Application, RequestHandler

from .control import Control
from .kernel import Event
from .refusal import Refusal, refusal_of

HEARTBEAT_SECONDS = 4.0
MAX_EVENTS_WAITING = 100


class Handler(RequestHandler):
    """What all routes share: the control behind them, JSON bodies, refusals as JSON."""

    def initialize(self, control: Control) -> None:
        self.control = control

    def body(self) -> dict[str, Any]:
        """The request's JSON object."""
        try:
            value = json.loads(self.request.body)
        except ValueError as error:
            raise Refusal(400, "invalid_request", f"the body is not JSON: {error}") from error
        if not isinstance(value, dict):
            raise Refusal(400, "invalid_request", "the body is not a JSON object")
        return value

    def field(self, name: str, kind: type) -> Any:
        """A field of the JSON body that must have this type."""
        value = self.body().get(name)
        if (isinstance(value, bool) and kind is not bool) or not isinstance(value, kind):
            raise Refusal(400, "invalid_request", f"{name} must be of type {kind.__name__}")
        return value

    def answer(self, value: Any) -> None:
        self.set_header("Content-Type", "application/json")
        self.write(json.dumps(value))

    def write_error(self, status_code: int, **kwargs: Any) -> None:
        error = kwargs.get("exc_info", (None, None))[1]
        if isinstance(error, OSError):
            error = refusal_of(error)
        if isinstance(error, Refusal):
            self.set_status(error.status)
            self.finish(json.dumps({"code": error.code, "message": str(error)}))
        else:
            self.finish(json.dumps({"code": "failed", "message": self._reason}))

    def log_exception(self, *details: Any) -> None:
        if not isinstance(details[1], Refusal | OSError):
            super().log_exception(*details)


class StatusHandler(Handler):
    """GET /v1/status: the current kernel, and whether it runs."""

    def get(self) -> None:
        kernel = self.control.kernel
        self.answer({"generation": kernel.generation, "key": kernel.key, "running": kernel.pid is not None})


class StartHandler(Handler):
    """POST /v1/kernel/start {generation}."""

    async def post(self) -> None:
        self.answer(await self.control.start_kernel(self.field("generation", int)))


class SignalHandler(Handler):
    """POST /v1/kernel/interrupt and /v1/kernel/kill."""

    def post(self, action: str) -> None:
        kernel = self.control.kernel
        done = kernel.interrupt() if action == "interrupt" else kernel.kill()
        if not done:
            raise Refusal(409, "no_kernel", "no kernel is running")
        self.answer({})


class EventsHandler(Handler):
    """GET /v1/events: a line for what the kernel is and what becomes of it, and a heartbeat between."""

    async def get(self) -> None:
        events: asyncio.Queue[Event] = asyncio.Queue(MAX_EVENTS_WAITING)
        for event in self.control.kernel.story():
            events.put_nowait(event)
        stop = self.control.kernel.subscribe(events.put_nowait)
        self.set_header("Content-Type", "application/x-ndjson")
        try:
            while True:
                await self._send(await _next(events))
        except StreamClosedError:
            return
        finally:
            stop()

    async def _send(self, event: Event) -> None:
        self.write(json.dumps(event) + "\n")
        await self.flush()


async def _next(events: asyncio.Queue[Event]) -> Event:
    try:
        async with asyncio.timeout(HEARTBEAT_SECONDS):
            return await events.get()
    except TimeoutError:
        return {"event": "heartbeat"}


def make_application(control: Control) -> Application:
    """The route table."""
    shared = {"control": control}
    return Application(
        [
            (r"/v1/status", StatusHandler, shared),
            (r"/v1/events", EventsHandler, shared),
            (r"/v1/kernel/start", StartHandler, shared),
            (r"/v1/kernel/(interrupt|kill)", SignalHandler, shared),
        ],
        log_function=lambda handler: None,
    )
