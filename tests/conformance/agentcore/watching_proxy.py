"""A proxy between the clients and the service that reads along and holds every answer against the service model.

It passes bytes as they come, in both directions, and judges an answer before its last byte is passed on, so that a
client which has its answer can rely on the verdict being there. On request it loses answers, as a network does.
"""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from tests.conformance.agentcore import service_model, validation
from tests.conformance.agentcore.exchanges import Conversation, Exchange
from tests.conformance.agentcore.service_model import Operation

PIECE = 1 << 16
INVOKE = "/tools/invoke"
TO_BE_LOST = "the-first-answer-is-lost"
"""Part of the user agent of a client whose script asks that no first attempt gets its answer."""


@dataclass
class Verdicts:
    """What has been judged: the problems found, and how many answers there were, by operation."""

    known: list[Operation]
    problems: list[str] = field(default_factory=list)
    answers: Counter[str] = field(default_factory=Counter)

    def judge(self, exchange: Exchange) -> None:
        assert exchange.answer is not None
        operation = service_model.meant(self.known, exchange.method, exchange.target)
        self.answers[operation.name if operation else "none"] += 1
        found = validation.problems(operation, exchange.answer)
        self.problems += [f"{exchange.method} {exchange.target}: {problem}" for problem in found]

    def taken(self) -> list[str]:
        """The problems since the last call."""
        taken, self.problems = self.problems, []
        return taken


class WatchingProxy:
    """Listens on a port of its own; `url` is what clients are pointed at."""

    def __init__(self, service_url: str, verdicts: Verdicts) -> None:
        target = urlsplit(service_url)
        self._service = (target.hostname, target.port)
        self.verdicts = verdicts
        self.url = ""
        self._to_lose = 0
        self._losing = INVOKE
        self._to_hold = 0
        self._loop = asyncio.new_event_loop()
        self._ready = threading.Event()
        self._end: asyncio.Event
        self._tasks: set[asyncio.Task[None]] = set()
        self._thread = threading.Thread(target=self._run, name="watching proxy")

    def start(self) -> None:
        self._thread.start()
        assert self._ready.wait(120)

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._end.set)
        self._thread.join(120)
        assert not self._thread.is_alive()

    @contextmanager
    def losing(self, answers: int, *, of: str = INVOKE) -> Iterator[None]:
        """The next answers of an operation are lost: the connection breaks as their first byte comes."""
        self._to_lose, self._losing = answers, of
        try:
            yield
        finally:
            self._to_lose = 0

    @contextmanager
    def holding(self, answers: int) -> Iterator[None]:
        """The next answers to an invocation never come: they are held back until the client gives up."""
        self._to_hold = answers
        try:
            yield
        finally:
            self._to_hold = 0

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._serve())

    async def _serve(self) -> None:
        self._end = asyncio.Event()
        server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        self._ready.set()
        await self._end.wait()
        server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        try:
            service_reader, service_writer = await asyncio.open_connection(*self._service)
        except OSError:
            writer.transport.abort()
            return
        conversation, gone = Conversation(self.verdicts.judge), asyncio.Event()
        up = asyncio.create_task(self._pass_up(reader, service_writer, conversation, gone))
        try:
            if await self._pass_down(service_reader, writer, conversation, gone):
                await close(writer)
        except (OSError, asyncio.CancelledError):
            pass  # the client went away in the middle, or the proxy stops
        finally:
            up.cancel()
            await asyncio.gather(up, return_exceptions=True)
            conversation.ended()
            writer.transport.abort()
            service_writer.transport.abort()

    async def _pass_up(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        conversation: Conversation,
        gone: asyncio.Event,
    ) -> None:
        """What the client sends, to its end, which is passed on as well."""
        try:
            while data := await reader.read(PIECE):
                conversation.from_client(data)
                writer.write(data)
                await writer.drain()
            writer.write_eof()
        finally:
            gone.set()

    async def _pass_down(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        conversation: Conversation,
        gone: asyncio.Event,
    ) -> bool:
        """What the service sends, to its end; False for an answer that is to be lost."""
        while data := await reader.read(PIECE):
            if self._is_lost(conversation):
                return False
            if self._is_held(conversation):
                await gone.wait()
                return False
            conversation.from_service(data)
            writer.write(data)
            await writer.drain()
        return True

    def _is_lost(self, conversation: Conversation) -> bool:
        if self._to_lose > 0 and begins_answer(conversation, self._losing):
            self._to_lose -= 1
            return True
        if not begins_answer(conversation, INVOKE):
            return False
        assert conversation.current is not None
        headers = conversation.current.headers
        return TO_BE_LOST in headers.get("user-agent", "") and headers["amz-sdk-request"].startswith("attempt=1")

    def _is_held(self, conversation: Conversation) -> bool:
        held = self._to_hold > 0 and begins_answer(conversation, INVOKE)
        self._to_hold -= held
        return held


def begins_answer(conversation: Conversation, operation: str) -> bool:
    """Whether what comes now is the first of an answer to what is asked for at addresses that end so."""
    current = conversation.current
    return current is not None and current.answer is None and current.target.partition("?")[0].endswith(operation)


async def close(writer: asyncio.StreamWriter) -> None:
    """Close once everything written has gone out, with a deadline."""
    writer.close()
    with suppress(OSError, TimeoutError):
        async with asyncio.timeout(10):
            await writer.wait_closed()
