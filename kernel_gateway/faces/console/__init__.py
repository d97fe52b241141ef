"""The face of people in a browser: the console's page, its parts, and signing in to it.

The page is built from `console/` at the top of the repository into `static`, and asks the REST face for all that it
shows. `pages` are the documents with what a browser may do on each, `routes` lists what is asked and answered.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tornado.routing import PathMatches, Rule

from kernel_gateway.faces.console.handler import ConsoleHandler

if TYPE_CHECKING:
    from kernel_gateway.services.composition import Services

__all__ = ["make_rules"]


def make_rules(services: Services) -> list[Rule]:
    """The rules of this face over one set of services."""
    return [Rule(PathMatches(r"(?:/|/console/.*)"), ConsoleHandler, {"services": services})]
