"""What one row of the table of routes is."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from kernel_gateway import errors as e
from kernel_gateway.faces import scopes
from kernel_gateway.faces.rest.calls import JSON, Endpoint
from kernel_gateway.faces.rest.parameters import Nothing
from sandcell.models.scopes import Scope

Errors = tuple[type[e.GatewayError], ...]
PARAMETER = re.compile(r"\{(\w+)\}")


@dataclass(frozen=True)
class Route:
    """One method at one address.

    `body` and `query` are the types they are read as, `result` the type of the answer and `media` its media type.
    `uploads`: the body is bytes, handed on as they come. `invocation`: counts against the caller's rate. `accepted`:
    also answers 202. `more_media`: media types that it answers with when it is asked to. `rehearsal`: what it answers
    in a dry run, with 200, where that is not `result`. `bare`: statuses without a body, and what they say. `large`: its
    body may be a whole notebook. `public`: needs no token. `errors`: what it raises beside the ones any route may
    raise. `scope`, what a credential must be good for, is said in `faces.scopes`: a route that is not there cannot be
    made.
    """

    method: str
    path: str
    endpoint: Endpoint
    summary: str
    result: Any = None
    status: int = 200
    body: Any = None
    query: type = Nothing
    media: str = JSON
    more_media: tuple[str, ...] = ()
    headers: dict[str, str] = field(default_factory=dict)
    uploads: bool = False
    invocation: bool = False
    accepted: bool = False
    rehearsal: Any = None
    bare: dict[int, str] = field(default_factory=dict)
    large: bool = False
    public: bool = False
    errors: Errors = ()
    scope: Scope | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        scope = scopes.of_rest(self.method, self.path)
        if self.public != (scope is None):
            raise LookupError(f"{self.method} {self.path} is public in one table and not in the other")
        object.__setattr__(self, "scope", scope)

    @property
    def parameters(self) -> tuple[str, ...]:
        """Names of the address's parameters."""
        return tuple(PARAMETER.findall(self.path))
