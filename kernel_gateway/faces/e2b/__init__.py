"""The face of E2B: its control plane, its code interpreter and envd, as its clients send them, on one port.

A sandbox is a session. `routes` lists what is asked and answered; `make_rules` serves it next to the other faces.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tornado.httputil import HTTPServerRequest
from tornado.routing import Matcher, Rule

from kernel_gateway.faces.e2b.handler import E2BHandler
from kernel_gateway.faces.e2b.identifiers import SANDBOX_HEADER

if TYPE_CHECKING:
    from kernel_gateway.services.composition import Services

__all__ = ["make_rules"]

ROOTS = ("sandboxes", "execute", "contexts", "snapshots", "templates", "process.Process", "filesystem.Filesystem")
SHARED_ROOTS = ("health", "envs", "metrics")
"""Of envd; without a sandbox in the request they are not this face's."""


class Addressed(Matcher):
    """What is sent to our roots; names that others may use too count where the request names a sandbox."""

    def match(self, request: HTTPServerRequest) -> dict[str, Any] | None:
        parts = request.path.removeprefix("/").split("/", 2)
        ours = parts[0] in ROOTS or parts[:2] == ["v2", "sandboxes"] or request.path == "/files"
        return {} if ours or (parts[0] in SHARED_ROOTS and SANDBOX_HEADER in request.headers) else None


def make_rules(services: Services) -> list[Rule]:
    """The rules of this face over one set of services."""
    return [Rule(Addressed(), E2BHandler, {"services": services})]
