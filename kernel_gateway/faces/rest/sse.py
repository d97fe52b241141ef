"""Server-sent events as bytes. Pure. The format: https://html.spec.whatwg.org/multipage/server-sent-events.html"""

from __future__ import annotations

from kernel_gateway.errors import InvalidRequest
from kernel_gateway.faces.rest.bodies import encode
from sandcell.models.shapes import Event

HEARTBEAT = b": still here\n\n"
MOST_DIGITS = 18


def frame(event: Event) -> bytes:
    """One event; its data is JSON and so never has a line break of its own."""
    return b"id: %d\nevent: %s\ndata: %s\n\n" % (event.sequence, event.event.encode(), encode(event.data))


def last_event_id(header: str | None) -> int:
    """The sequence to go on after; 0 without the header."""
    if header is None:
        return 0
    if not (header.isascii() and header.isdigit() and len(header) <= MOST_DIGITS):
        raise InvalidRequest("Last-Event-ID must be the id of an event: a whole number", field="Last-Event-ID")
    return int(header)
