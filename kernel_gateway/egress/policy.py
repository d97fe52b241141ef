"""Whether a request may leave: the session's policy and the operator's rules against a target. Pure.

It is asked twice: about the request before any name is looked up, so that a name that is not declared never reaches a
DNS server, and about each address the name turned out to have. Words are stable; sentences are for people.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final
from urllib.parse import parse_qsl

import msgspec

from kernel_gateway.egress import addresses
from kernel_gateway.egress.addresses import Address
from kernel_gateway.egress.head import Header
from kernel_gateway.egress.plain_path import unescape
from kernel_gateway.egress.target import Target
from kernels.environment import Endpoint, NetworkMode, NetworkPolicy

_OTHER_METHOD: Final = frozenset(("x-http-method-override", "x-http-method", "x-method-override", "_method"))
_OTHER_PLACE: Final = frozenset(
    (
        *("forwarded", "x-forwarded-host", "x-forwarded-path", "x-forwarded-prefix", "x-forwarded-server"),
        *("x-forwarded-uri", "x-host", "x-original-host", "x-original-uri", "x-original-url", "x-rewrite-url"),
    )
)
"""Fields by which servers take a request for another one than its first line says. Methods are said in queries, too."""


class OperatorRules(msgspec.Struct, frozen=True):
    """What the operator of the service declared: endpoints that may be reached though their addresses are not public.

    They excuse the address only: an `ALLOWLIST` must name them as well, and `SANDBOX` reaches nothing. One declared by
    name may have a private address; any other kind (loopback, link-local, ...) is declared by the address itself.
    """

    private: tuple[Endpoint, ...] = ()


class Verdict(msgspec.Struct, frozen=True):
    """Yes or no, a stable word and a sentence."""

    allowed: bool
    word: str
    sentence: str

    @property
    def reason(self) -> str:
        return f"{self.word}: {self.sentence}"


def yes(word: str, sentence: str) -> Verdict:
    return Verdict(allowed=True, word=word, sentence=sentence)


def no(word: str, sentence: str) -> Verdict:
    return Verdict(allowed=False, word=word, sentence=sentence)


def on_request(policy: NetworkPolicy, method: str, target: Target, headers: Iterable[Header] = ()) -> Verdict:
    """Whether the policy lets this request be made at all; its addresses are judged later."""
    if policy.mode is NetworkMode.PUBLIC:
        return yes("public", "any public address may be reached")
    if policy.mode is not NetworkMode.ALLOWLIST:
        return no("no_network", "nothing may be reached from this environment")
    declared = [one for one in policy.allow if covers(one, target)]
    if not declared:
        return no("not_declared", f"{target.authority} is not among the declared endpoints")
    overriding = _find_override(target, headers)
    refusals = [refusal for one in declared if (refusal := _check_narrowing(one, method, target, overriding))]
    if len(refusals) == len(declared):
        return refusals[-1]
    return yes("declared", f"{target.authority} is a declared endpoint")


def on_address(operator: OperatorRules, target: Target, address: Address, *, own: bool) -> Verdict:
    """Whether this address may be connected to for the target; `own` says that it is one of this host."""
    kind = "host" if own and addresses.classify(address) == addresses.PUBLIC else addresses.classify(address)
    if kind == addresses.PUBLIC:
        return yes("public", f"{address} is a public address")
    if _is_declared(operator, target, address, by_name=kind in addresses.PRIVATE and not own):
        return yes("operator", f"{address} ({kind}) is declared by the operator")
    return no(f"{kind}_address", f"{target.host} is {address}, which is not a public address ({kind})")


def covers(endpoint: Endpoint, target: Target) -> bool:
    """Whether the endpoint's host and port are the target's. A wildcard covers names below its domain, not itself."""
    if endpoint.port != target.port:
        return False
    host = endpoint.host.lower().removesuffix(".").strip("[]")
    if host.startswith("*."):
        return target.address is None and target.host.endswith(host[1:]) and len(target.host) >= len(host)
    return host == target.host


def _find_override(target: Target, headers: Iterable[Header]) -> str:
    """The first thing in a request that could make it another one; empty when there is none.

    Many servers read a field with underscores as the one with hyphens.
    """
    fields = [name.decode("ascii", "replace").lower().replace("_", "-") for name, _ in headers]
    keys = [key.lower() for key, _ in parse_qsl(target.query.removeprefix("?"), keep_blank_values=True)]
    found = [name for name in fields if name in _OTHER_METHOD | _OTHER_PLACE]
    return next(iter([*found, *(key for key in keys if key in _OTHER_METHOD)]), "")


def _check_narrowing(endpoint: Endpoint, method: str, target: Target, overriding: str) -> Verdict | None:
    """Why an endpoint that covers the target does not allow the request; None when it does."""
    if not endpoint.methods and not endpoint.path_prefix:
        return None
    if not target.path:
        sentence = f"{target.authority} is declared for plain HTTP with certain methods or paths, which a tunnel hides"
        return no("no_tunnel", sentence)
    if overriding:
        sentence = f"{target.authority} is declared for certain methods or paths, and {overriding} could name others"
        return no("override", sentence)
    if endpoint.methods and method not in endpoint.methods:
        return no("method", f"{target.authority} is declared for {', '.join(endpoint.methods)}, not {method}")
    return _check_outside(endpoint, target) if endpoint.path_prefix else None


def _check_outside(endpoint: Endpoint, target: Target) -> Verdict | None:
    path = unescape(target.path)
    if path is None:
        return no("unclear_path", "the path has dot segments, empty segments, or escapes that servers read differently")
    if not _is_below(path, endpoint.path_prefix):
        return no("path", f"{target.authority} is declared for paths below {endpoint.path_prefix}")
    return None


def _is_below(path: str, prefix: str) -> bool:
    return path == prefix or path.startswith(prefix if prefix.endswith("/") else prefix + "/")


def _is_declared(operator: OperatorRules, target: Target, address: Address, *, by_name: bool) -> bool:
    literal = Target(str(address), target.port, address)
    return any(covers(one, literal) or (by_name and covers(one, target)) for one in operator.private)
