"""One call of a tool: who calls, for which session, with what."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kernel_gateway.faces.agentcore.tools.arguments import Arguments
from kernel_gateway.faces.agentcore.tools.figures import Figures
from kernel_gateway.identity.principal import Principal

if TYPE_CHECKING:
    from kernel_gateway.services.composition import Services


async def _no_bound() -> None:
    """For who calls a tool without a face around it."""


@dataclass(frozen=True)
class Invocation:
    """`session_id` is ours, with dashes. `key` tells the same call sent again: code with it runs once; "" is none.

    A tool awaits `room` before it takes something large into memory for its answer; that raises LimitReached when there
    is none in time. Awaiting it again is fine.
    """

    services: Services
    principal: Principal
    session_id: str
    arguments: Arguments
    key: str = ""
    figures: Figures = field(default_factory=Figures, repr=False)
    room: Callable[[], Awaitable[None]] = field(default=_no_bound, repr=False)
