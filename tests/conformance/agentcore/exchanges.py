"""Requests and their answers, read from the bytes of one connection in both directions. No I/O.

A `Conversation` gets what passes and hands each exchange on when its answer is complete, or when the connection
ends before that. What is no HTTP is passed over: it has no answer that a model could say anything of.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import h11

from tests.conformance.agentcore.validation import Answer


@dataclass
class Exchange:
    """One request and its answer, as far as it has come."""

    method: str
    target: str
    headers: dict[str, str]
    request_bytes: int = 0
    answer: Answer | None = None


@dataclass
class Conversation:
    """Both directions of one connection."""

    done: Callable[[Exchange], None]
    current: Exchange | None = None
    _readable: bool = True
    _server: h11.Connection = field(default_factory=lambda: h11.Connection(h11.SERVER, 1 << 20))
    _client: h11.Connection = field(default_factory=lambda: h11.Connection(h11.CLIENT, 1 << 20))

    def from_client(self, data: bytes) -> None:
        """Bytes on their way to the service."""
        self._while_readable(self._read_request, data)

    def from_service(self, data: bytes) -> None:
        """Bytes on their way to the client."""
        self._while_readable(self._read_answer, data)

    def ended(self) -> None:
        """The connection is over; an answer that had begun is handed on as it is."""
        current, self.current = self.current, None
        if current is not None and current.answer is not None:
            self.done(current)

    def _while_readable(self, read: Callable[[bytes], None], data: bytes) -> None:
        if self._readable:
            try:
                read(data)
            except (h11.ProtocolError, RuntimeError):
                self._readable = False

    def _read_request(self, data: bytes) -> None:
        if data:
            self._server.receive_data(data)
        while True:
            event = self._server.next_event()
            if isinstance(event, h11.Request):
                self.current = Exchange(event.method.decode(), event.target.decode("latin-1"), _headers(event))
                self._client.send(event)
            elif isinstance(event, h11.Data):
                assert self.current is not None
                self.current.request_bytes += len(event.data)
                self._client.send(event)
            elif isinstance(event, h11.EndOfMessage):
                self._client.send(event)
            else:
                return

    def _read_answer(self, data: bytes) -> None:
        self._client.receive_data(data)
        while True:
            event = self._client.next_event()
            if self.current is None:
                return
            if isinstance(event, h11.Response):
                self.current.answer = Answer(event.status_code, _headers(event))
            elif isinstance(event, h11.Data):
                assert self.current.answer is not None
                self.current.answer.body += event.data
            elif isinstance(event, h11.EndOfMessage):
                self._finish()
                return
            elif event is h11.NEED_DATA or event is h11.PAUSED:
                return

    def _finish(self) -> None:
        """The answer is complete: hand it on, and read what follows on the connection as a new exchange."""
        current, self.current = self.current, None
        assert current is not None
        assert current.answer is not None
        current.answer.complete = True
        self.done(current)
        following, _ = self._server.trailing_data
        self._server = h11.Connection(h11.SERVER, 1 << 20)
        self._client = h11.Connection(h11.CLIENT, 1 << 20)
        if following:
            self.from_client(following)


def _headers(event: h11.Request | h11.Response) -> dict[str, str]:
    return {name.decode().lower(): value.decode("latin-1") for name, value in event.headers}
