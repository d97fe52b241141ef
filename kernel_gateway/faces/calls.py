"""What an endpoint gets of faces whose requests need no more: one admitted request; no tornado in it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qs

from kernel_gateway.errors import InvalidRequest, Unauthorized
from kernel_gateway.identity.principal import ANONYMOUS, Caller, Principal

if TYPE_CHECKING:
    from kernel_gateway.services.composition import Services

MOST_PARAMETERS: Final = 32


@dataclass(kw_only=True)
class AdmittedCall:
    """One admitted request; `content` is a body as it came, `found` who calls, once that is known."""

    services: Services
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


def parse_query(query: str) -> dict[str, str]:
    """A query string's parameters, the first of each name; raises InvalidRequest."""
    try:
        found = parse_qs(query, keep_blank_values=True, max_num_fields=MOST_PARAMETERS)
    except ValueError:
        raise InvalidRequest(f"more than {MOST_PARAMETERS} query parameters") from None
    return {name: values[0] for name, values in found.items()}
