"""The face of AWS Bedrock AgentCore Code Interpreter: its data and its control plane, as its clients send them.

`operations` lists every operation once; `make_rules` routes to them what is addressed to this face. It shares the port
with every other face.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tornado.httputil import HTTPServerRequest
from tornado.routing import Matcher, Rule

from kernel_gateway.faces.agentcore.calls import Face
from kernel_gateway.faces.agentcore.handler import AgentCoreHandler

if TYPE_CHECKING:
    from kernel_gateway.services.composition import Services

__all__ = ["make_rules"]

ROOTS = ("code-interpreters", "tags")


class Addressed(Matcher):
    """What is sent to our roots, and every request that AWS's clients have signed: they may put a path before ours."""

    def match(self, request: HTTPServerRequest) -> dict[str, Any] | None:
        root = request.path.removeprefix("/").split("/", 1)[0]
        signed = request.headers.get("Authorization", "").startswith("AWS4-") or "X-Amz-Algorithm=" in request.query
        return {} if root in ROOTS or signed else None


def make_rules(services: Services) -> list[Rule]:
    """The rules of this face over one set of services."""
    return [Rule(Addressed(), AgentCoreHandler, {"face": Face.over(services)})]
