"""Routes about the kernels: what they are, their start and their signals, and the stream of what becomes of them."""

from __future__ import annotations

import asyncio
import json
import time
from base64 import b64decode

from tornado.iostream import StreamClosedError

from ..deadline import timeout
from ..processes.kernel import RELAY_VERSION, Event
from ..refusal import Refusal
from .handler import Handler

HEARTBEAT_SECONDS = 6.0
"""Each costs guest and service about half a millisecond: of a thousand idle sessions that is most of what they cost."""
MAX_EVENTS_WAITING = 100


class StatusHandler(Handler):
    """GET /v1/status: the current kernel, whether it runs, and how many commands, tasks and followed programs do."""

    def get(self) -> None:
        kernel, commands = self.control.kernel, len(self.control.list_started())
        state = {"running": kernel.pid is not None, "commands": commands, "relay": RELAY_VERSION}
        self.answer({"generation": kernel.generation, "key": kernel.key, **state})


class StartHandler(Handler):
    """POST /v1/kernel/start {generation, keep_deno, key}: a new kernel; answers as `kernel_started` does."""

    async def post(self) -> None:
        generation, keep_deno = self.field("generation", int), self.field("keep_deno", bool)
        key = self.field("key", str)
        self.answer(await self.control.start_kernel(generation, keep_deno=keep_deno, key=key))


class RenumberHandler(Handler):
    """POST /v1/kernel/renumber {generation}: the kernel that runs is of this generation; answers as a start does."""

    async def post(self) -> None:
        self.answer(await self.control.renumber_kernel(self.field("generation", int)))


class DenoHandler(Handler):
    """POST /v1/deno/start and /v1/deno/kill: the kernel for JavaScript and TypeScript."""

    async def post(self, action: str) -> None:
        if action == "start":
            self.answer(await self.control.start_deno())
        else:
            await self.control.kill_deno()
            self.answer({})


class DeclaredHandler(Handler):
    """POST /v1/declared/start {kernel, command, variables, by_message}, .../interrupt {kernel, why, run}, .../kill."""

    async def post(self, action: str) -> None:
        name, answer = self.field("kernel", str), {}
        if action == "start":
            command, variables = self.field("command", list), self.field("variables", dict)
            if not command or not all(type(each) is str for each in (*command, *variables.values())):
                raise Refusal(400, "invalid_request", "a command is of strings, and so are variables")
            by_message = self.field("by_message", bool, type(None)) is True
            answer = await self.control.start_declared(name, command, variables, by_message=by_message)
        elif action == "kill":
            await self.control.kill_declared(name)
        else:
            self.control.interrupt_declared(name, *_read_why(self))
        self.answer(answer)


class SignalHandler(Handler):
    """POST /v1/kernel/interrupt {why, run}, .../kill, .../guard {held_bytes, limit_bytes, until_ms} (short memory).

    After `until_ms`, of Unix time, the code that it was for may have ended: nothing is done.
    """

    def post(self, action: str) -> None:
        kernel = self.control.kernel
        if action == "guard":
            late = time.time() * 1000 > self.field("until_ms", int)
            done = late or kernel.guard_memory(self.field("held_bytes", int), self.field("limit_bytes", int))
        elif action == "interrupt":
            done = not self.control.note_interrupt("python", *_read_why(self)) or kernel.interrupt()
        else:
            done = kernel.kill()
        if not done:
            raise Refusal(409, "no_kernel", "no kernel is running")
        self.answer({})


class MessageHandler(Handler):
    """POST /v1/relay/interrupt {kernel, why, run, message}: interrupt it by a message of its protocol, in base64."""

    def post(self) -> None:
        try:
            message = b64decode(self.field("message", str), validate=True)
        except ValueError:
            raise Refusal(400, "invalid_request", "message is not base64") from None
        self.control.interrupt_by_message(self.field("kernel", str), *_read_why(self), message)
        self.answer({})


class EventsHandler(Handler):
    """GET /v1/events: a line for what the kernel is and for each thing that becomes of it, and heartbeats between."""

    async def get(self) -> None:
        waiting: asyncio.Queue[Event] = asyncio.Queue(MAX_EVENTS_WAITING)
        for event in self.control.story():
            waiting.put_nowait(event)
        unsubscribe = self.control.kernel.subscribe(lambda event: self._keep(waiting, event))
        self.set_header("Content-Type", "application/x-ndjson")
        try:
            while True:
                self.write(json.dumps(await _next(waiting)) + "\n")
                await self.flush()
        except StreamClosedError:
            return
        finally:
            unsubscribe()
            self.break_off()

    def _keep(self, waiting: asyncio.Queue[Event], event: Event) -> None:
        """Hold an event for a follower; one that does not read is let go and may come again."""
        if waiting.full():
            self.break_off()
        else:
            waiting.put_nowait(event)


def _read_why(handler: Handler) -> tuple[str, str]:
    """Why a kernel is interrupted, at the deadline of what it runs or else on request; and for which run alone."""
    why = "deadline" if handler.field("why", str, type(None)) == "deadline" else "request"
    return why, handler.field("run", str, type(None)) or ""


async def _next(waiting: asyncio.Queue[Event]) -> Event:
    try:
        async with timeout(HEARTBEAT_SECONDS):
            return await waiting.get()
    except TimeoutError:
        return {"event": "heartbeat"}
