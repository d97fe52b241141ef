"""One of every error of the service, for the tests of how a face shows them."""

from __future__ import annotations

from kernel_gateway import errors as e
from kernel_gateway.faces import errors as f


def make_error(kind: type[e.GatewayError]) -> e.GatewayError:
    """An error of this class, with what its constructor needs."""
    if issubclass(kind, f.MethodNotAllowed):
        return kind("GET", ["PUT"])
    if issubclass(kind, f.RangeNotSatisfiable):
        return kind(7)
    if issubclass(kind, e.LimitReached):
        return kind("later", retry_after_seconds=0.25)
    return kind("a sentence")
