"""What an endpoint gets and what it may answer with, free of tornado.

An endpoint is `async (Call) -> answer`. An answer is a shape (sent as JSON), None (204), or one of the kinds below.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from kernel_gateway.identity.principal import Caller, Principal
from sandcell.models.shapes import Event

if TYPE_CHECKING:
    from kernel_gateway.services.composition import Services

NO_CALLER = Caller(Principal(id="", name="", admin=False), "read", "")
"""Who calls a route that is open to all."""
OCTETS = "application/octet-stream"
NOTEBOOK = "application/x-ipynb+json"
HTML = "text/html; charset=utf-8"
PYTHON = "text/x-python; charset=utf-8"
EVENTS = "text/event-stream"
ZIP = "application/zip"
JSON = "application/json"


@dataclass
class Call:
    """One admitted request. `ids` are the address's parameters, `path` its file path; `body` and `query` are typed.

    `cancellable`: the endpoint only looks or waits, so it is cancelled when the client goes away. Whatever changes
    something runs to its end, whether or not someone is left to hear of it. `forget_body`: to be called by what answers
    for long and has no use for the body any more, whose memory is others' from then on.
    """

    services: Services
    caller: Caller = NO_CALLER
    ids: Mapping[str, str] = field(default_factory=dict)
    path: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    query: Any = None
    body: Any = None
    chunks: AsyncIterator[bytes] | None = None
    cancellable: bool = False
    forget_body: Callable[[], None] = lambda: None

    @property
    def principal(self) -> Principal:
        return self.caller.principal

    @property
    def upload(self) -> AsyncIterator[bytes]:
        """The request's body, for routes that take one as bytes."""
        if self.chunks is None:
            raise RuntimeError("the route takes no upload")
        return self.chunks


@dataclass
class Accepted:
    """A shape with 202: the work goes on."""

    value: Any


@dataclass
class Document:
    """Bytes at hand, with their media type and what else a browser is to know of them."""

    content: bytes
    media_type: str
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass
class Download:
    """`size` bytes that come piece by piece; `name` is what a browser would save them as.

    `size` is None when nobody knows it: an answer that is cut off shows that by its missing end.
    """

    chunks: AsyncIterator[bytes]
    size: int | None
    name: str
    media_type: str = OCTETS
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass
class Bare:
    """A status and headers without a body: what HEAD asks for, and 304."""

    status: int
    headers: Mapping[str, str]


@dataclass
class Piece:
    """Bytes `start` up to `end` of `size` that come piece by piece, and never change: `tag` names the whole of them.

    `media_type` is what a browser may take them for, `name` what it would save them as.
    """

    chunks: AsyncIterator[bytes]
    start: int
    end: int
    size: int
    tag: str
    media_type: str
    name: str


@dataclass
class Following:
    """Server-sent events until the iterator ends."""

    events: AsyncIterator[Event]


Endpoint = Callable[[Call], Awaitable[Any]]
