"""What an endpoint of this face gets: one admitted request; no tornado in it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from kernel_gateway.errors import Unauthorized
from kernel_gateway.identity.principal import ANONYMOUS, Caller, Principal

if TYPE_CHECKING:
    from kernel_gateway.faces.librechat.places import Places
    from kernel_gateway.services.composition import Services


@dataclass
class Call:
    """One admitted request; `content` is a body as it came, `found` who calls, once that is known."""

    services: Services
    places: Places
    found: Caller | None = None
    ids: Mapping[str, str] = field(default_factory=dict)
    query: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    body: Any = None
    content: bytes = b""

    @property
    def caller(self) -> Caller:
        """Who calls; raises Unauthorized when it is not known."""
        if self.found is None:
            raise Unauthorized
        return self.found

    @property
    def principal(self) -> Principal:
        return ANONYMOUS if self.found is None else self.found.principal
