"""The route on packages: what the service says of those that its environments have."""

from __future__ import annotations

from ..refusal import Refusal
from .handler import Handler


class PackagesHandler(Handler):
    """PUT /v1/packages {elsewhere}: of each package, by its normalised name, which environments have it, in words."""

    def put(self) -> None:
        elsewhere = self.field("elsewhere", dict)
        if not all(isinstance(each, str) and each.isascii() and each.isprintable() for each in elsewhere.values()):
            raise Refusal(
                400, "invalid_request", "elsewhere says in one line of each package which environments have it"
            )
        self.control.missing_index.elsewhere = elsewhere
        self.answer({})
