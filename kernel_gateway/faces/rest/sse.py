"""Server-sent events as bytes. The format: https://html.spec.whatwg.org/multipage/server-sent-events.html"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from kernel_gateway.errors import InvalidRequest
from kernel_gateway.faces.json_bodies import encode
from kernel_gateway.faces.responses import close_iterator
from sandcell.models.executions import Event

HEARTBEAT = b": still here\n\n"
HEARTBEAT_SECONDS = 15.0
MOST_DIGITS = 18


async def stream(events: AsyncIterator[Event]) -> AsyncIterator[bytes]:
    """Events as they come, and a comment now and then so that both ends notice a dead connection."""
    upcoming = asyncio.ensure_future(anext(events, None))
    try:
        yield b""  # the head of the answer goes out now, however long the first event takes
        while True:
            done, _ = await asyncio.wait({upcoming}, timeout=HEARTBEAT_SECONDS)
            if not done:
                yield HEARTBEAT
                continue
            if (event := upcoming.result()) is None:
                break
            yield frame(event)
            upcoming = asyncio.ensure_future(anext(events, None))
    finally:
        # An iterator that is still being read cannot be closed: first its reader ends.
        upcoming.cancel()
        await asyncio.wait({upcoming})
        await close_iterator(events)


def frame(event: Event) -> bytes:
    """One event; its data is JSON and so never has a line break of its own."""
    return b"id: %d\nevent: %s\ndata: %s\n\n" % (event.sequence, event.event.encode(), encode(event.data))


def read_last_event_id(header: str | None) -> int:
    """The sequence to go on after; 0 without the header."""
    if header is None:
        return 0
    if not (header.isascii() and header.isdigit() and len(header) <= MOST_DIGITS):
        raise InvalidRequest("Last-Event-ID must be the id of an event: a whole number", field="Last-Event-ID")
    return int(header)
