"""The Jupyter face: JupyterLab, VS Code and other Jupyter clients attach to a session's live kernel.

A kernel's id, its Jupyter session's id and our session's id are one. `routes` lists what is asked and answered,
`channels` is the socket; `rules` serves both beside the other faces.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tornado.routing import PathMatches, Rule

from kernel_gateway.faces.jupyter.calls import Face
from kernel_gateway.faces.jupyter.channels import ChannelsHandler
from kernel_gateway.faces.jupyter.handler import JupyterHandler
from kernel_gateway.faces.jupyter.routes import CHANNELS

if TYPE_CHECKING:
    from kernel_gateway.services.composition import Services

__all__ = ["rules"]

BELOW = r"/(?:api|kernelspecs)(?:/.*)?$"
NOTHING = r"/(?:tree/?)?$"


def rules(services: Services) -> list[Rule]:
    """The rules of this face over one set of services."""
    face = {"face": Face(services)}
    return [
        Rule(PathMatches(f"{CHANNELS}/?$"), ChannelsHandler, face),
        Rule(PathMatches(BELOW), JupyterHandler, face),
        Rule(PathMatches(NOTHING), JupyterHandler, face),
    ]
