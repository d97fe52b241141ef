"""Our own protocol: JSON over HTTP under `/v1`, with the probes `/healthz` and `/readyz`.

`table` lists every route once; `application` serves it, with the rules of other faces before it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from tornado.routing import PathMatches, Rule
from tornado.web import Application

from kernel_gateway.faces.rest import replies
from kernel_gateway.faces.rest.handler import RestHandler
from kernel_gateway.faces.rest.route import PARAMETER, Route
from kernel_gateway.faces.rest.table import TABLE

if TYPE_CHECKING:
    from kernel_gateway.services.composition import Services

__all__ = ["application", "routes"]


def application(services: Services, rules: Sequence[Rule] = ()) -> Application:
    """The table's routes and `rules`; an address that nothing answers gets our 404."""
    return Application(
        [*rules, *routes(services)],
        default_handler_class=RestHandler,
        default_handler_args={"services": services, "routes": {}},
        log_function=replies.log_request,
    )


def routes(services: Services) -> list[Rule]:
    """A rule for each address of the table."""
    addresses: dict[str, dict[str, Route]] = {}
    for route in TABLE:
        addresses.setdefault(route.path, {})[route.method] = route
    return [
        Rule(PathMatches(pattern(path)), RestHandler, {"services": services, "routes": by_method})
        for path, by_method in addresses.items()
    ]


def pattern(path: str) -> str:
    """The regular expression of an address; `{path}` takes slashes too."""

    def group(match: re.Match[str]) -> str:
        return f"(?P<{match[1]}>.*)" if match[1] == "path" else f"(?P<{match[1]}>[^/]+)"

    literal = "".join(part if part.startswith("{") else re.escape(part) for part in re.split(r"(\{\w+\})", path))
    return PARAMETER.sub(group, literal) + "$"
