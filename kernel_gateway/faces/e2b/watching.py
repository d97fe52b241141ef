"""envd's remote procedures that watch directories: as a stream, or collected until the client asks."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any, Final

from kernel_gateway.errors import GatewayError, translate
from kernel_gateway.faces.e2b import connect
from kernel_gateway.faces.e2b.calls import Call, require_live
from kernel_gateway.faces.e2b.identifiers import resolve_path
from kernel_gateway.faces.responses import Response, Stream, close_iterator
from kernels.guest_client.client import FileChange

KEEP_ALIVE_SECONDS: Final = 50.0


async def watch_directory(call: Call) -> Response:
    """Stream what changes, until the client leaves."""
    changes = await call.services.watches.follow(
        call.principal, call.session_id, _resolve(call), recursive=call.body.recursive
    )
    headers = {"Content-Type": connect.STREAM, "X-Accel-Buffering": "no"}
    return Response(Stream(_stream(call, changes)), headers=headers)


async def _stream(call: Call, changes: AsyncGenerator[FileChange]) -> AsyncIterator[bytes]:
    waiting: asyncio.Task[Any] | None = None
    failure: GatewayError | None = None
    try:
        yield connect.wrap({"start": {}})
        while True:
            waiting = waiting or asyncio.ensure_future(anext(changes, None))
            await asyncio.wait({waiting}, timeout=KEEP_ALIVE_SECONDS)
            if not waiting.done():
                yield connect.wrap({"keepalive": {}})
                continue
            try:
                change, waiting = waiting.result(), None
            except Exception as error:
                failure, waiting = translate(error), None
                require_live(call)  # raises: the answer breaks off, by which clients know that the sandbox is gone
                break
            if change is None:
                break
            yield connect.wrap({"filesystem": _describe(change)})
        yield connect.end(failure)
    finally:
        if waiting is not None:
            waiting.cancel()
            await asyncio.wait({waiting})
        await close_iterator(changes)


async def create_watcher(call: Call) -> Response:
    watcher_id = await call.services.watches.create(
        call.principal, call.session_id, _resolve(call), recursive=call.body.recursive
    )
    return Response({"watcherId": watcher_id})


async def get_events(call: Call) -> Response:
    found = await call.services.watches.take(call.principal, call.session_id, call.body.watcher_id)
    return Response({"events": [_describe(each) for each in found]})


async def remove_watcher(call: Call) -> Response:
    await call.services.watches.remove(call.principal, call.session_id, call.body.watcher_id)
    return Response({})


def _resolve(call: Call) -> str:
    return resolve_path(call.body.path, connect.read_user(call.headers.get("Authorization", "")))


def _describe(change: FileChange) -> dict[str, str]:
    return {"name": change.name, "type": f"EVENT_TYPE_{change.kind.upper()}"}
