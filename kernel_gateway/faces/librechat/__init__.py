"""The face of LibreChat's code interpreter: its Code API, as `@librechat/agents` and LibreChat's server send it.

A storage session is a workspace, and code runs in a session over it, each run a program of its own. `routes` lists
what is asked and answered; `make_rules` serves it next to the other faces.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tornado.routing import PathMatches, Rule

from kernel_gateway.faces.librechat.handler import LibreChatHandler
from kernel_gateway.faces.librechat.places import Places

if TYPE_CHECKING:
    from kernel_gateway.services.composition import Services

__all__ = ["make_rules"]


def make_rules(services: Services) -> list[Rule]:
    """The rules of this face over one set of services."""
    return [Rule(PathMatches(r"/librechat/.*"), LibreChatHandler, {"services": services, "places": Places(services)})]
