"""Whether a request may leave: the session's policy and the operator's rules against a target. Pure.

It is asked twice: about the request before any name is looked up, so that a name that is not declared never reaches a
DNS server, and about each address the name turned out to have. Words are stable; sentences are for people.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from kernel_gateway.egress import addresses
from kernel_gateway.egress.addresses import Address
from kernel_gateway.egress.target import Target
from kernels.environment import Endpoint, NetworkMode, NetworkPolicy

_UNRESERVED = re.compile(r"%(2[dD]|2[eE]|3[0-9]|4[1-9a-fA-F]|5[0-9aA]|5[fF]|6[1-9a-fA-F]|7[0-9aA]|7[eE])")
_UNCLEAR = re.compile(r"\\|//|%(?:00|25|2f|5c)|/\.{1,2}(?:[/;]|$)|[^!-~]", re.IGNORECASE)


@dataclass(frozen=True)
class OperatorRules:
    """What the operator of the service declared: endpoints that may be reached though their addresses are not public.

    They excuse the address only: an `ALLOWLIST` must name them as well, and `SANDBOX` reaches nothing. One declared by
    name may have a private address; any other kind (loopback, link-local, ...) is declared by the address itself.
    """

    private: tuple[Endpoint, ...] = ()


@dataclass(frozen=True)
class Verdict:
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


def on_request(policy: NetworkPolicy, method: str, target: Target) -> Verdict:
    """Whether the policy lets this request be made at all; its addresses are judged later."""
    if policy.mode is NetworkMode.PUBLIC:
        return yes("public", "any public address may be reached")
    if policy.mode is not NetworkMode.ALLOWLIST:
        return no("no_network", "nothing may be reached from this environment")
    declared = [one for one in policy.allow if covers(one, target)]
    if not declared:
        return no("not_declared", f"{target.authority} is not among the declared endpoints")
    refusals = [refusal for one in declared if (refusal := _narrowed(one, method, target))]
    if len(refusals) == len(declared):
        return refusals[-1]
    return yes("declared", f"{target.authority} is a declared endpoint")


def on_address(operator: OperatorRules, target: Target, address: Address, *, own: bool) -> Verdict:
    """Whether this address may be connected to for the target; `own` says that it is one of this host."""
    kind = "host" if own and addresses.kind(address) == addresses.PUBLIC else addresses.kind(address)
    if kind == addresses.PUBLIC:
        return yes("public", f"{address} is a public address")
    if _declared(operator, target, address, by_name=kind in addresses.PRIVATE and not own):
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


def _narrowed(endpoint: Endpoint, method: str, target: Target) -> Verdict | None:
    """Why an endpoint that covers the target does not allow the request; None when it does."""
    if not endpoint.methods and not endpoint.path_prefix:
        return None
    if not target.path:
        sentence = f"{target.authority} is declared for plain HTTP with certain methods or paths, which a tunnel hides"
        return no("no_tunnel", sentence)
    if endpoint.methods and method not in endpoint.methods:
        return no("method", f"{target.authority} is declared for {', '.join(endpoint.methods)}, not {method}")
    return _outside(endpoint, target) if endpoint.path_prefix else None


def _outside(endpoint: Endpoint, target: Target) -> Verdict | None:
    path = clear_path(target.path)
    if path is None:
        return no("unclear_path", "the path has dot segments, empty segments or encoded slashes")
    if not _below(path, clear_path(endpoint.path_prefix) or endpoint.path_prefix):
        return no("path", f"{target.authority} is declared for paths below {endpoint.path_prefix}")
    return None


def clear_path(path: str) -> str | None:
    """The path with needless escapes undone; None when servers could take it for another one."""
    decoded = _UNRESERVED.sub(lambda found: chr(int(found[1], 16)), path)
    return None if _UNCLEAR.search(decoded) else decoded


def _below(path: str, prefix: str) -> bool:
    return path == prefix or path.startswith(prefix if prefix.endswith("/") else prefix + "/")


def _declared(operator: OperatorRules, target: Target, address: Address, *, by_name: bool) -> bool:
    literal = Target(str(address), target.port, address)
    return any(covers(one, literal) or (by_name and covers(one, target)) for one in operator.private)
