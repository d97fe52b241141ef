"""The Model Context Protocol over streamable HTTP, at `/mcp`: the tools of `sandcell.tools` without a client between.

What is said is `sandcell.mcp`'s, the same as over stdio; here are the transport, the sessions of the protocol and the
tools' backend over the services. It answers a request with JSON, or with an event stream when there is progress to
tell; it sends nothing that was not asked for, so there is no stream to open with GET.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tornado.routing import PathMatches, Rule

from kernel_gateway.faces.mcp.handler import METADATA_PATH, PATH, McpHandler, MetadataHandler
from kernel_gateway.faces.mcp.sessions import McpSessions

if TYPE_CHECKING:
    from kernel_gateway.services.composition import Services

__all__ = ["make_rules"]


def make_rules(services: Services) -> list[Rule]:
    """The rules of this face over one set of services."""
    return [
        Rule(PathMatches(PATH), McpHandler, {"services": services, "sessions": McpSessions(services)}),
        Rule(PathMatches(f"{METADATA_PATH}(?:{PATH})?"), MetadataHandler, {"services": services}),
    ]
