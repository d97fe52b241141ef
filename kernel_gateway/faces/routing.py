"""The routes of every face: what a row of a table has, and the tree that finds the rows of an address. Pure.

An address is written with its parameters in braces, one between two slashes. `{path}` comes last and takes the rest,
slashes included. Addresses are compared as they were received, split at `/` and only then decoded: an encoded slash is
part of a parameter.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, Final, Generic, TypeVar

import msgspec

from kernel_gateway.faces.errors import MethodNotAllowed
from kernel_gateway.faces.responses import Answer
from sandcell.models.credentials import Scope

CallT = TypeVar("CallT")
R = TypeVar("R", bound="Route[Any]")
PARAMETER: Final = re.compile(r"\{(\w+)\}")
REST_OF_PATH: Final = "{path}"
ANYTHING: Final = re.compile(r".+", re.DOTALL)
MOST_METHOD_CHARACTERS: Final = 32
"""Of a method that an answer repeats."""


def is_read_only(method: str | None) -> bool:
    """Whether a request of this method changes nothing, whatever its address is."""
    return method in ("GET", "HEAD")


@dataclass(frozen=True)
class Route(Generic[CallT]):
    """One method at one address, and the endpoint that answers there; faces add what is theirs.

    `name` is the operation's and `event` what its records in the audit log are called, by default the same. Clients are
    generated from the one and filters written for the other, so neither ever changes, whatever happens to names of
    functions. `status` is that of a success, `body` the type that the request's body is read as, None where there is
    none. `looks`: it changes nothing, although its method does not say so. `scope`, what a credential must be good for,
    comes from `faces.scopes`; None: the route is open to all.
    """

    method: str
    path: str
    endpoint: Callable[[CallT], Awaitable[Answer]]
    _: KW_ONLY
    name: str
    event: str = ""
    summary: str = ""
    status: int = 200
    body: Any = None
    looks: bool = False
    scope: Scope | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        if not self.event:
            object.__setattr__(self, "event", self.name)
        object.__setattr__(self, "scope", self.find_scope())

    def find_scope(self) -> Scope | None:
        """Called when the row is made; raises LookupError for a route that no row of `faces.scopes` names."""
        raise NotImplementedError

    @property
    def read_only(self) -> bool:
        """Whether it changes nothing, for the audit log."""
        return self.looks or is_read_only(self.method)

    @property
    def parameters(self) -> tuple[str, ...]:
        """Names of the address's parameters."""
        return tuple(PARAMETER.findall(self.path))


class Address(msgspec.Struct, Generic[R], frozen=True):
    """What there is at an address: routes by method, none where it is unknown, and the parameters in it."""

    routes: Mapping[str, R] = msgspec.field(default_factory=dict)
    parameters: Mapping[str, str] = msgspec.field(default_factory=dict)

    @property
    def methods(self) -> list[str]:
        return sorted(self.routes)

    def require(self, method: str) -> R:
        """The route of this method; raises MethodNotAllowed. For an address that is known."""
        route = self.routes.get(method)
        if route is None:
            raise MethodNotAllowed(method[:MOST_METHOD_CHARACTERS], self.methods)
        return route


@dataclass
class _Node(Generic[R]):
    """A place in the tree of addresses: what follows it, and what ends here with the names of its parameters."""

    literal: dict[str, _Node[R]] = field(default_factory=dict)
    parameter: _Node[R] | None = None
    rest: _Node[R] | None = None
    routes: dict[str, R] = field(default_factory=dict)
    names: tuple[str, ...] = ()


class RouteTree(Generic[R]):
    """Finds the routes of an address.

    `parameter` is what a parameter looks like before `decode` reads it. `anywhere`: something may stand before each
    address of the table; the longest address that fits at the end counts.
    """

    def __init__(
        self,
        table: Iterable[R],
        *,
        parameter: re.Pattern[str] = ANYTHING,
        decode: Callable[[str], str] = str,
        anywhere: bool = False,
    ) -> None:
        self._parameter = parameter
        self._decode = decode
        self._anywhere = anywhere
        self._root: _Node[R] = _Node()
        self._depth = 0
        for route in table:
            self._add(route)

    def _add(self, route: R) -> None:
        node, segments = self._root, route.path.removeprefix("/").split("/")
        self._depth = max(self._depth, len(segments))
        for segment in segments:
            if segment == REST_OF_PATH:
                node.rest = node = node.rest or _Node()
            elif PARAMETER.fullmatch(segment):
                node.parameter = node = node.parameter or _Node()
            else:
                node = node.literal.setdefault(segment, _Node())
        if node.routes and node.names != route.parameters:
            raise ValueError(f"{route.path} has other names for the parameters of an address that is there already")
        node.routes[route.method], node.names = route, route.parameters

    def find(self, path: str) -> Address[R]:
        """What is at a path as it was received; its parameters are decoded."""
        if not self._anywhere and not path.startswith("/"):
            return Address()
        segments = path.removeprefix("/").split("/")
        # No address is longer than the deepest one, so a path of very many parts costs no more than splitting it.
        starts = range(max(0, len(segments) - self._depth), len(segments)) if self._anywhere else (0,)
        for start in starts:
            values: list[str] = []
            node = self._descend(self._root, segments, start, values)
            if node is not None:
                return Address(node.routes, dict(zip(node.names, map(self._decode, values), strict=True)))
        return Address()

    def _descend(self, node: _Node[R], segments: list[str], at: int, values: list[str]) -> _Node[R] | None:
        """Where the segments from `at` on lead to, as `values` the parameters; words go before parameters."""
        if at == len(segments):
            return node if node.routes else None
        below = node.literal.get(segments[at])
        if below is not None and (found := self._descend(below, segments, at + 1, values)) is not None:
            return found
        if node.parameter is not None and self._parameter.fullmatch(segments[at]):
            values.append(segments[at])
            if (found := self._descend(node.parameter, segments, at + 1, values)) is not None:
                return found
            values.pop()
        if node.rest is not None:
            values.append("/".join(segments[at:]))
        return node.rest
