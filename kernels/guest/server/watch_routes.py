"""The route that follows what changes below a directory."""

from __future__ import annotations

import json
from typing import Any

from tornado.iostream import StreamClosedError

from ..deadline import timeout
from ..refusal import Refusal
from .handler import Handler

HEARTBEAT_SECONDS = 3.0
MAX_WATCHES = 16


class WatchHandler(Handler):
    """POST /v1/files/watch {path, recursive}: a line for each change, until the caller hangs up. The path is relative
    to the sandbox's root."""

    async def post(self) -> None:
        from ..workspace.watching import Watch  # noqa: PLC0415 - few sessions need it

        if self.control.watches >= MAX_WATCHES:
            raise Refusal(429, "too_many_watches", f"{MAX_WATCHES} directories are watched already")
        path, recursive = self.field("path", str), self.field("recursive", bool)
        watch = Watch(self.control.every_file, self.control.as_user, recursive=recursive)
        self.control.watches += 1
        try:
            await watch.open(path)
            await self._follow(watch)
        finally:
            self.control.watches -= 1
            watch.close()

    async def _follow(self, watch: Any) -> None:
        self.set_header("Content-Type", "application/x-ndjson")
        event: dict[str, Any] = {"event": "start"}
        try:
            while True:
                self.write(json.dumps(event) + "\n")
                await self.flush()
                if event["event"] == "overflow":
                    return
                event = await _next(watch)
        except StreamClosedError:
            return


async def _next(watch: Any) -> dict[str, Any]:
    try:
        async with timeout(HEARTBEAT_SECONDS):
            return dict(await watch.next())
    except TimeoutError:
        return {"event": "heartbeat"}
