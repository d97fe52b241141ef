"""MCP over stdin and stdout: a message a line. The program that started us ends the conversation by closing stdin."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
import threading
from typing import Any, BinaryIO, Final

from sandcell.mcp import messages
from sandcell.mcp.conversation import Conversation
from sandcell.mcp.messages import Notification, RpcError
from sandcell.tools.toolbox import Toolbox

MOST_LINE_BYTES: Final = 50_000_000
"""One message, as a file that is written; a longer one ends the conversation."""
MOST_WAITING: Final = 100
"""Messages that were read and not taken up yet."""
CLOSE_SECONDS: Final = 60.0
"""How long the sessions may take to stop."""


async def serve(toolbox: Toolbox, stdin: BinaryIO | None = None, stdout: BinaryIO | None = None) -> None:
    """Answer until stdin ends, or a signal asks for the end; then stop the sessions that were started."""
    transport = StdioTransport(Conversation(toolbox), stdin or sys.stdin.buffer, stdout or sys.stdout.buffer)
    await transport.run()


class StdioTransport:
    """Reads messages in a thread, since stdin may be of any kind, and writes them one at a time."""

    def __init__(self, conversation: Conversation, stdin: BinaryIO, stdout: BinaryIO) -> None:
        self._conversation = conversation
        self._stdin = stdin
        self._stdout = stdout
        self._lines: asyncio.Queue[bytes] = asyncio.Queue(MOST_WAITING)
        self._writing = asyncio.Lock()
        self._answering: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        """Until there is nothing more to read."""
        loop = asyncio.get_running_loop()
        threading.Thread(target=self._read, args=(loop,), name="sandcell mcp", daemon=True).start()
        own = asyncio.current_task()
        if own is not None and sys.platform != "win32":
            for number in (signal.SIGTERM, signal.SIGINT):
                loop.add_signal_handler(number, own.cancel)
        try:
            while line := await self._lines.get():
                await self._take(line)
        except asyncio.CancelledError:
            if own is None or not own.cancelling():
                raise
            own.uncancel()
        finally:
            with contextlib.suppress(TimeoutError):  # what has not stopped by then ends by its idle timeout
                async with asyncio.timeout(CLOSE_SECONDS):
                    await self._conversation.aclose()

    def _read(self, loop: asyncio.AbstractEventLoop) -> None:
        line = b"-"
        while line:
            line = self._stdin.readline(MOST_LINE_BYTES + 1)
            if len(line) > MOST_LINE_BYTES:
                line = b""
            try:
                asyncio.run_coroutine_threadsafe(self._lines.put(line), loop).result()
            except RuntimeError:  # the loop has ended before
                return

    async def _take(self, line: bytes) -> None:
        if not line.strip():
            return
        try:
            message = messages.parse(line)
        except RpcError as error:
            await self._write(messages.make_error(None, error))
            return
        if isinstance(message, Notification):
            self._conversation.note(message)
            return
        task = asyncio.create_task(self._answer(message))
        self._answering.add(task)
        task.add_done_callback(self._answering.discard)

    async def _answer(self, request: messages.Request) -> None:
        answer = await self._conversation.answer(request, self._write)
        if answer.get("error", {}).get("code") != messages.CANCELLED:  # nothing is waited for any more
            await self._write(answer)

    async def _write(self, message: dict[str, Any]) -> None:
        async with self._writing:
            await asyncio.to_thread(self._write_line, messages.encode(message) + b"\n")

    def _write_line(self, line: bytes) -> None:
        try:
            self._stdout.write(line)
            self._stdout.flush()
        except BrokenPipeError:  # the reader has left: stdin ends as well
            return
