"""One call of a tool: who calls, for which session, with what."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kernel_gateway.faces.agentcore.tools.arguments import Arguments
from kernel_gateway.identity.principal import Principal

if TYPE_CHECKING:
    from kernel_gateway.services.composition import Services


@dataclass(frozen=True)
class Invocation:
    """`session_id` is ours, with dashes. `key` tells the same call sent again: code with it runs once; "" is none."""

    services: Services
    principal: Principal
    session_id: str
    arguments: Arguments
    key: str = ""
