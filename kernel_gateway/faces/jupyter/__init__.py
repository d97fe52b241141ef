"""The Jupyter face: JupyterLab, VS Code and other Jupyter clients attach to a session's live kernel.

A kernel's id, its Jupyter session's id and our session's id are one. `routes` lists what is asked and answered,
`channels` is the socket; `make_rules` serves both next to the other faces.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tornado.httputil import HTTPServerRequest
from tornado.routing import Matcher, Rule

from kernel_gateway.faces.jupyter.calls import Face
from kernel_gateway.faces.jupyter.channels import ChannelsHandler
from kernel_gateway.faces.jupyter.handler import PUBLIC, JupyterHandler
from kernel_gateway.faces.jupyter.routes import SOCKET

if TYPE_CHECKING:
    from kernel_gateway.services.composition import Services

__all__ = ["make_rules"]

ROOTS = ("api", "kernelspecs")


class Socket(Matcher):
    """The address of a kernel's socket, with or without a slash at its end."""

    def match(self, request: HTTPServerRequest) -> dict[str, Any] | None:
        found = SOCKET.find(request.path.removesuffix("/"))
        return {"path_kwargs": dict(found.parameters)} if found.routes else None


class Addressed(Matcher):
    """What is sent to our roots, and what VS Code looks at."""

    def match(self, request: HTTPServerRequest) -> dict[str, Any] | None:
        root = request.path.removeprefix("/").split("/", 1)[0]
        return {} if (root in ROOTS and request.path.startswith("/")) or request.path in PUBLIC else None


def make_rules(services: Services) -> list[Rule]:
    """The rules of this face over one set of services."""
    face = {"face": Face(services)}
    return [Rule(Socket(), ChannelsHandler, face), Rule(Addressed(), JupyterHandler, face)]
