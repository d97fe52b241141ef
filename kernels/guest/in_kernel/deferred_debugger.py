"""ipykernel's debugger, imported only for debugging: that is a quarter of a kernel's start.

Loaded by `kernel_main.py` from its directory. Needs the standard library and nothing of Sandcell's.
"""

from __future__ import annotations

import asyncio
import importlib.util
import os
import sys
import types
from typing import Any

DEBUGGER = "ipykernel.debugger"


class DeferredDebugger:
    """Stands for ipykernel's debugger until there is a request for it."""

    def __init__(self, *arguments: Any) -> None:
        self._arguments = arguments
        self._made: asyncio.Event | None = None
        self._real: Any = None

    async def process_request(self, message: Any) -> Any:
        """Called in the control thread for each debug request."""
        return await self._debugger().process_request(message)

    async def handle_stopped_event(self) -> None:
        """Called in the control thread, again and again."""
        if self._real is None:
            self._made = self._made or asyncio.Event()  # Python 3.9's is the loop's in which it is made
            await self._made.wait()
        await self._real.handle_stopped_event()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._debugger(), name)

    def _debugger(self) -> Any:
        if self._real is None:
            os.environ.setdefault("PYDEVD_DISABLE_FILE_VALIDATION", "1")  # else it prints advice to stderr
            sys.modules.pop(DEBUGGER, None)
            self._real = importlib.import_module(DEBUGGER).Debugger(*self._arguments)
            if self._made is not None:
                self._made.set()
        return self._real


def defer() -> None:
    """Put a module in the place of ipykernel's debugger that is cheap to import."""
    if importlib.util.find_spec("debugpy") is None:
        return
    stand_in: Any = types.ModuleType(DEBUGGER)
    stand_in._is_debugpy_available = True
    stand_in.Debugger = DeferredDebugger
    sys.modules[DEBUGGER] = stand_in
