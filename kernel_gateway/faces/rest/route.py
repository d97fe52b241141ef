"""What one row of the table of routes is."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, field
from typing import Any

from kernel_gateway import errors as e
from kernel_gateway.faces import errors as r
from kernel_gateway.faces import routing, scopes
from kernel_gateway.faces.responses import JSON
from kernel_gateway.faces.rest.calls import Call
from kernel_gateway.faces.rest.parameters import Nothing
from sandcell.models.credentials import Scope

Errors = tuple[type[e.GatewayError], ...]


@dataclass(frozen=True)
class Route(routing.Route[Call]):
    """One method at one address, with all that the OpenAPI document says of it.

    `query` is the type that the query is read as, `result` the type of the answer and `media` its media type.
    `uploads`: the body is bytes, handed on as they come. `invocation`: counts against the caller's rate. `accepted`:
    also answers 202. `more_media`: media types that it answers with when it is asked to. `dry_run_result`: what it
    answers in a dry run, with 200, where that is not `result`. `bare`: statuses without a body, and what they say.
    `large`: its body may be a whole notebook. `public`: needs no token, and is not recorded in the audit log. `errors`:
    what it raises besides the ones any route may raise. `scraped`: it is asked again and again, by a program or with
    each key that a person types, so that the audit log has only what was refused.
    """

    _: KW_ONLY
    result: Any = None
    query: type = Nothing
    media: str = JSON
    more_media: tuple[str, ...] = ()
    headers: dict[str, str] = field(default_factory=dict)
    uploads: bool = False
    invocation: bool = False
    accepted: bool = False
    dry_run_result: Any = None
    bare: dict[int, str] = field(default_factory=dict)
    large: bool = False
    public: bool = False
    scraped: bool = False
    errors: Errors = ()

    def find_scope(self) -> Scope | None:
        scope = scopes.find_rest_scope(self.method, self.path)
        if self.public != (scope is None):
            raise LookupError(f"{self.method} {self.path} is public in one table and not in the other")
        return scope

    @property
    def raises(self) -> Errors:
        """Every error that it may answer with."""
        return (*self._common_errors(), *self.errors)

    def _common_errors(self) -> Errors:
        """What any such route may raise, whatever it does."""
        common: Errors = (e.InvalidRequest, r.MethodNotAllowed, e.InternalError, r.HeadTooSlow, r.HeadTooLarge)
        common += (r.TooManyConnections,)
        if not self.public:
            common += (e.Unauthorized, e.ScopeMissing, e.RateLimited)
        if self.body is not None:
            common += (r.MalformedJson, r.UnsupportedMediaType)
        if self.body is not None or self.uploads:
            common += (e.PayloadTooLarge, r.BodyTooSlow, e.LimitReached, e.NoSpace)
        return common
