"""Directories of live sandboxes that callers watch: followed while a call lasts, or collected until they are asked for.

A collected watch lasts until it is removed, the session hibernates, or the sandbox or the service ends; of what nobody
asks for the oldest goes.
"""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from collections import deque
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field

from kernel_gateway.errors import GatewayError, LimitReached, NotFound, translated
from kernel_gateway.identity.principal import Principal
from kernel_gateway.services.background import Background
from kernel_gateway.services.sessions.registry import Registry
from kernels.guest_client.client import FileChange

MOST_WATCHERS = 8
"""Of one session, that collect."""
MOST_CHANGES = 2_000
"""That one watcher collects."""
MOST_BYTES = 262_144
"""Of the names in them."""
RETRY_SECONDS = 60.0
MOMENT_SECONDS = 0.1


@dataclass
class _Watcher:
    session_id: str
    changes: deque[FileChange] = field(default_factory=deque)
    size: int = 0
    task: asyncio.Task[None] | None = None
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    def add(self, change: FileChange) -> None:
        """The oldest go when there are too many."""
        self.changes.append(change)
        self.size += change.size
        while len(self.changes) > MOST_CHANGES or self.size > MOST_BYTES:
            self.size -= self.changes.popleft().size
        self.changed.set()

    def take(self) -> list[FileChange]:
        """All of them, which are not kept any longer."""
        found = list(self.changes)
        self.changes.clear()
        self.size = 0
        self.changed.clear()
        return found


class Watches:
    """The verbs on watches; paths begin with a slash. Watching is no activity that keeps a session from idling."""

    def __init__(self, background: Background, registry: Registry) -> None:
        self._background = background
        self._registry = registry
        self._watchers: dict[str, _Watcher] = {}

    async def follow(
        self, principal: Principal, session_id: str, path: str, *, recursive: bool
    ) -> AsyncGenerator[FileChange]:
        """What changes below a directory, from when this returns until it is closed; raises NotFound, LimitReached."""
        live = await self._registry.require(principal, session_id)
        with translated():
            guest = (await live.sandbox.ready()).guest
            return await guest.watch_files(path[1:], recursive=recursive)

    async def create(self, principal: Principal, session_id: str, path: str, *, recursive: bool) -> str:
        """Collect what changes from now on; returns the watcher's id."""
        live = await self._registry.require(principal, session_id)
        if sum(each.session_id == session_id for each in self._watchers.values()) >= MOST_WATCHERS:
            raise LimitReached(
                f"a session has at most {MOST_WATCHERS} watchers: remove one", retry_after_seconds=RETRY_SECONDS
            )
        watcher_id, watcher = str(uuid.uuid4()), _Watcher(session_id)
        self._watchers[watcher_id] = watcher
        try:
            changes = await self.follow(principal, session_id, path, recursive=recursive)
        except BaseException:
            del self._watchers[watcher_id]
            raise
        watcher.task = self._background.spawn(self._collect(watcher_id, watcher, changes), f"watch in {session_id}")
        live.watches.add(watcher.task)
        watcher.task.add_done_callback(live.watches.discard)
        return watcher_id

    async def _collect(self, watcher_id: str, watcher: _Watcher, changes: AsyncGenerator[FileChange]) -> None:
        try:
            # What ends with the sandbox, or breaks, is not there any more when it is asked for.
            with contextlib.suppress(GatewayError), translated():
                async with contextlib.aclosing(changes):
                    async for change in changes:
                        watcher.add(change)
        finally:
            self._watchers.pop(watcher_id, None)

    async def take(self, principal: Principal, session_id: str, watcher_id: str) -> list[FileChange]:
        """What was collected since the last call; raises NotFound. Where that is nothing, a moment is waited.

        So a caller finds what it has changed itself just before.
        """
        watcher = await self._find(principal, session_id, watcher_id)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(watcher.changed.wait(), MOMENT_SECONDS)
        return watcher.take()

    async def remove(self, principal: Principal, session_id: str, watcher_id: str) -> None:
        """Watch no longer; raises NotFound."""
        watcher = await self._find(principal, session_id, watcher_id)
        self._watchers.pop(watcher_id, None)
        if watcher.task is not None:
            watcher.task.cancel()
            await asyncio.wait({watcher.task})

    async def _find(self, principal: Principal, session_id: str, watcher_id: str) -> _Watcher:
        await self._registry.require(principal, session_id)
        watcher = self._watchers.get(watcher_id)
        if watcher is None or watcher.session_id != session_id:
            raise NotFound("there is no such watcher")
        return watcher
