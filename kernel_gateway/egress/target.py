"""What a request asks for, read strictly: one way to write a host, so that no other program reads another one. Pure.

Hosts are names of letters, digits, hyphens and underscores, or addresses in their usual notation; a number that some
resolvers would take for an address, as `0x7f.1`, is refused and never looked up.
"""

from __future__ import annotations

import re
from ipaddress import AddressValueError, IPv4Address, IPv6Address

import msgspec

from kernel_gateway.egress.addresses import Address, unmap

_LABEL = r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?"
_NAME = re.compile(rf"{_LABEL}(?:\.{_LABEL})*")
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")
_URL = re.compile(r"http://([^/?#]*)(/[^?#]*)?(\?[^#]*)?", re.IGNORECASE)
_VISIBLE = re.compile(r"[!-~]+")
_LONGEST_NAME = 253


class BadTarget(Exception):
    """A target that is refused unread. `word` is stable."""

    def __init__(self, word: str, sentence: str) -> None:
        super().__init__(sentence)
        self.word = word


class Target(msgspec.Struct, frozen=True):
    """A host and a port; the host is a name in lower case, or an address in its shortest form.

    Plain HTTP has a `path`, which begins with a slash, and a `query`, empty or with its question mark; a tunnel has
    neither.
    """

    host: str
    port: int
    address: Address | None = None
    path: str = ""
    query: str = ""

    @property
    def authority(self) -> str:
        """`host:port`, IPv6 in brackets."""
        return f"{bracket(self.host)}:{self.port}"


def bracket(host: str) -> str:
    """The host as it stands before a port."""
    return f"[{host}]" if ":" in host else host


def parse_tunnel(text: str) -> Target:
    """The target of CONNECT: `host:port`."""
    host, port = _split(text)
    if port is None:
        raise BadTarget("bad_target", "a tunnel needs a host and a port")
    return _make_target(host, port)


def parse_url(text: str) -> Target:
    """The target of a plain HTTP request to a proxy: `http://host[:port]/path?query`."""
    if not _VISIBLE.fullmatch(text) or "\\" in text:
        raise BadTarget("bad_target", "the address has characters that no address has")
    found = _URL.fullmatch(text)
    if not found:
        what = "https needs a tunnel (CONNECT)" if text.lower().startswith("https:") else "this is a proxy"
        raise BadTarget("bad_target", f"{what}; ask for http://host/path")
    host, port = _split(found[1])
    return _make_target(host, port or 80, found[2] or "/", found[3] or "")


def is_same_authority(target: Target, host_header: str) -> bool:
    """Whether a Host header names the target; the port may be left out."""
    try:
        host, port = _split(host_header)
        named = _make_target(host, port or target.port)
    except BadTarget:
        return False
    if port is None and target.path and target.port != 80:
        return False
    return (named.host, named.port) == (target.host, target.port)


def _make_target(host: str, port: int, path: str = "", query: str = "") -> Target:
    name, address = parse_host(host)
    return Target(name, port, address, path, query)


def parse_host(host: str) -> tuple[str, Address | None]:
    """A host in the form that is compared, and its address when it is one."""
    if host.startswith("["):
        return _parse_ipv6(host.removeprefix("[").removesuffix("]"))
    name = host.lower().removesuffix(".")
    if not name.isascii() or len(name) > _LONGEST_NAME or not _NAME.fullmatch(name):
        raise BadTarget("bad_target", "the host is no host name; names in other scripts are written as xn--")
    if not _NUMBER.fullmatch(name.rpartition(".")[2]):
        return name, None
    try:
        return name, IPv4Address(name)
    except AddressValueError:
        raise BadTarget("odd_address", "an address is written as four decimal numbers with dots") from None


def _parse_ipv6(text: str) -> tuple[str, Address]:
    try:
        address = unmap(IPv6Address(text)) if "%" not in text else None
    except AddressValueError:
        address = None
    if address is None:
        raise BadTarget("odd_address", "what is in the brackets is no IPv6 address")
    return str(address), address


def _split(authority: str) -> tuple[str, int | None]:
    """Host (IPv6 in its brackets) and port."""
    if "@" in authority:
        raise BadTarget("bad_target", "an address with a user name in it is not taken")
    if authority.startswith("["):
        inner, closed, rest = authority.partition("]")
        host = inner + closed if closed else ""
    else:
        host, colon, port = authority.partition(":")
        rest = colon + port
    if not rest and host:
        return host, None
    digits = rest[1:]
    if not host or rest[:1] != ":" or not re.fullmatch(r"[0-9]{1,5}", digits) or not 0 < int(digits) < 65536:
        raise BadTarget("bad_target", "the address is not host:port")
    return host, int(digits)
