"""Server-sent events out of bytes. Pure. The format: https://html.spec.whatwg.org/multipage/server-sent-events.html"""

from __future__ import annotations

from typing import Any

import msgspec

from sandcell.models.executions import Event


class EventParser:
    """Feed it bytes as they come; it gives the events that they complete. Comments (heartbeats) give nothing."""

    def __init__(self) -> None:
        self._rest = b""
        self._sequence = 0
        self._kind = ""
        self._data: list[bytes] = []

    def feed(self, data: bytes) -> list[Event]:
        """The events that end in these bytes."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        found = (self._line(line.removesuffix(b"\r")) for line in lines)
        return [event for event in found if event is not None]

    def _line(self, line: bytes) -> Event | None:
        if not line:
            return self._event()
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if name == b"id":
            self._sequence = int(value)
        elif name == b"event":
            self._kind = value.decode()
        elif name == b"data":
            self._data.append(value)
        return None

    def _event(self) -> Event | None:
        if not self._data:
            return None
        data = msgspec.json.decode(b"\n".join(self._data), type=dict[str, Any])
        event = Event(self._sequence, self._kind, data)
        self._kind, self._data = "", []
        return event
