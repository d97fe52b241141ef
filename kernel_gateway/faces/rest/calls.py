"""What an endpoint of the REST face gets: one admitted request, free of tornado."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from kernel_gateway.faces.responses import Response
from kernel_gateway.identity.principal import ANONYMOUS, Caller, Principal

if TYPE_CHECKING:
    from kernel_gateway.services.composition import Services

NO_CALLER = Caller(ANONYMOUS, "read", "")
"""Who calls a route that is open to all."""


async def _cannot_pass_on(_address: str) -> Response:
    raise RuntimeError("there is no request to pass on")


@dataclass
class Call:
    """One admitted request. `ids` are the address's parameters, `path` its file path; `body` and `query` are typed.

    `cancellable`: the endpoint only looks or waits, so it is cancelled when the client goes away. Whatever changes
    something runs to its end, whether or not someone is left to hear of it. `forget_body`: to be called by what answers
    for long and has no use for the body any more, whose memory is others' from then on. `pass_on` asks the gateway at
    an address the same with the same body, and gives its answer.
    """

    services: Services
    caller: Caller = NO_CALLER
    ids: Mapping[str, str] = field(default_factory=dict)
    path: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    query: Any = None
    body: Any = None
    chunks: AsyncIterator[bytes] | None = None
    pass_on: Callable[[str], Awaitable[Response]] = _cannot_pass_on
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
