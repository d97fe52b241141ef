"""A signed request as it was received, before anything of it is decoded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property


@dataclass(frozen=True)
class SignedRequest:
    """A request's head. Each character stands for one byte of the wire (latin-1); headers are in their order.

    `raw_path` and `raw_query` are the target's parts before and after its first `?`, still percent-encoded.
    """

    method: str
    raw_path: str
    raw_query: str
    headers: Sequence[tuple[str, str]] = field(repr=False)

    @cached_property
    def by_name(self) -> dict[str, list[str]]:
        """Every value of each header, by its name in lower case."""
        found: dict[str, list[str]] = {}
        for name, value in self.headers:
            found.setdefault(name.lower(), []).append(value)
        return found

    def values(self, name: str) -> list[str]:
        """Every value of a header; `name` is in lower case."""
        return self.by_name.get(name, [])
