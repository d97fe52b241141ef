"""Sandboxes that do one thing and belong to no session: the sweep leaves them alone for as long as they are held."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

import structlog

from kernels.errors import KernelsError
from kernels.sandbox import SandboxRuntime

DESTROY_SECONDS: Final = 60.0
log = structlog.get_logger(__name__)


class UtilitySandboxes:
    """The ids of those that exist now, or are about to."""

    def __init__(self, runtime: SandboxRuntime) -> None:
        self._runtime = runtime
        self._ids: set[str] = set()

    @asynccontextmanager
    async def hold(self, sandbox_id: str) -> AsyncIterator[None]:
        """Entered before the sandbox is made; it is destroyed at the end, and what resists is left to the sweep."""
        self._ids.add(sandbox_id)
        try:
            yield
        finally:
            try:
                async with asyncio.timeout(DESTROY_SECONDS):
                    await self._runtime.destroy(sandbox_id)
            except (KernelsError, TimeoutError) as error:
                log.error("sandbox_not_destroyed", sandbox=sandbox_id, error=str(error))
            finally:
                self._ids.discard(sandbox_id)

    def __contains__(self, sandbox_id: str) -> bool:
        return sandbox_id in self._ids

    def __len__(self) -> int:
        return len(self._ids)
