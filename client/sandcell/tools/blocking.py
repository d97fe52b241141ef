"""The tools for code that blocks: a toolbox on an event loop of its own, in a thread."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from concurrent.futures import CancelledError
from contextlib import AsyncExitStack
from typing import Any, Final, Self, TypeVar

from sandcell.models.executions import Execution
from sandcell.tools import open_toolbox
from sandcell.tools.contents import ToolResult
from sandcell.tools.definitions import BY_NAME
from sandcell.tools.toolbox import OUTPUT_BYTES, Toolbox

T = TypeVar("T")
CLOSE_SECONDS: Final = 120.0
"""How long stopping the sessions may take."""


class BlockingToolbox:
    """The tools over a service, until `close`; the arguments are those of `open_toolbox`. Threads may share it.

    with BlockingToolbox() as tools:
        print(tools.call("run_python", {"code": "1 + 1"}).text)
    """

    def __init__(
        self,
        environment: str | None = None,
        *,
        session_id: str | None = None,
        url: str | None = None,
        token: str | None = None,
        output_bytes: int = OUTPUT_BYTES,
    ) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="sandcell tools", daemon=True)
        self._thread.start()
        self._stack = AsyncExitStack()
        opening = open_toolbox(environment, session_id=session_id, url=url, token=token, output_bytes=output_bytes)
        try:
            self.toolbox: Toolbox = self._wait(self._stack.enter_async_context(opening))
        except BaseException:
            self._end_loop()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @staticmethod
    def has(name: str) -> bool:
        """Whether a tool of this name is one of these."""
        return name in BY_NAME

    def call(self, name: str, arguments: dict[str, Any] | None = None) -> ToolResult:
        """As `Toolbox.call`; an interrupt from the keyboard stops the code that runs."""
        return self._wait(self.toolbox.call(name, arguments))

    async def call_async(self, name: str, arguments: dict[str, Any] | None = None) -> ToolResult:
        """The same for a caller on an event loop of its own; cancelling it stops the code that runs."""
        work = asyncio.run_coroutine_threadsafe(self.toolbox.call(name, arguments), self._loop)
        return await asyncio.wrap_future(work)

    def execute(self, code: str) -> Execution:
        """As `Toolbox.execute`."""
        return self._wait(self.toolbox.execute(code))

    def make_manifest(self) -> list[dict[str, Any]]:
        """As `Toolbox.make_manifest`."""
        return self._wait(self.toolbox.make_manifest())

    def close(self) -> None:
        """Stop the sessions that were started here; a second call does nothing."""
        if self._loop.is_closed():
            return
        try:
            self._wait(self._stack.aclose(), CLOSE_SECONDS)
        finally:
            self._end_loop()

    def _wait(self, work: Coroutine[Any, Any, T], seconds: float | None = None) -> T:
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result(seconds)
        except (KeyboardInterrupt, TimeoutError, CancelledError):
            future.cancel()
            raise

    def _end_loop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
