"""The face of Google's Agent Engine code execution: engines, sandboxes and their executions, as its clients send them.

`table` lists every address once; `make_rules` serves them next to the other faces, on the same port. A sandbox is a
session of Sandcell; engines and templates are rows of the database.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tornado.httputil import HTTPServerRequest
from tornado.routing import Matcher, Rule

from kernel_gateway.faces.agent_engine.calls import Face
from kernel_gateway.faces.agent_engine.handler import AgentEngineHandler
from kernel_gateway.faces.agent_engine.names import is_addressed

if TYPE_CHECKING:
    from kernel_gateway.services.composition import Services

__all__ = ["make_rules"]


class Addressed(Matcher):
    """What is sent to Google's addresses."""

    def match(self, request: HTTPServerRequest) -> dict[str, Any] | None:
        return {} if is_addressed(request.path) else None


def make_rules(services: Services) -> list[Rule]:
    """The rules of this face over one set of services."""
    return [Rule(Addressed(), AgentEngineHandler, {"face": Face(services)})]
