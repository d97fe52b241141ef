"""The names that requests may be addressed to, so that no web page reaches the service by a name of its own. Pure.

A page can have its own name resolve to this host's address (DNS rebinding): its requests carry that name in `Host`.
An address in `Host` cannot come about so, nor a name that cannot be in the public DNS.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable
from typing import Final

import msgspec

from kernel_gateway.errors import SettingInvalid

_LOCAL: Final = (".localhost", ".local", ".internal", ".home.arpa")
"""Endings that the public DNS never has."""
_NAME: Final = re.compile(r"(\*\.)?[a-z0-9_]([a-z0-9_.-]{0,252}[a-z0-9_])?")
_HOST: Final = re.compile(r"(?P<name>\[[0-9a-fA-F:.]+(%[^\]]*)?\]|[A-Za-z0-9_.-]+)(:[0-9]{1,5})?")
_ADDRESS: Final = re.compile(
    r"(?P<scheme>https?)://(?P<host>\[[0-9a-fA-F:.]+\]|[0-9a-fA-F:]*:[0-9a-fA-F:.]*|[A-Za-z0-9._-]+):(?P<port>[1-9][0-9]{0,4})"
)


class Hosts(msgspec.Struct, frozen=True):
    """Names that were given; `strict` admits no others, `every` admits all."""

    names: frozenset[str] = frozenset()
    strict: bool = False
    every: bool = False

    @classmethod
    def of_setting(cls, text: str, listening: str) -> Hosts:
        """Of the setting `allowed_hosts`, parted by commas or lines, and `host`; raises ValueError."""
        given = [each.strip().lower().rstrip(".") for each in re.split(r"[,\n]", text) if each.strip()]
        if given == ["*"]:
            return cls(every=True)
        for name in given:
            if not _NAME.fullmatch(name):
                raise ValueError(f"{name!r} is no name: give names without ports, *.name for all below it, or * alone")
        return cls(frozenset({*given, listening.lower()}), strict=bool(given))

    def admit(self, host: str, *, credential: bool) -> bool:
        """Whether a request with this `Host` is one for us; an empty one says nothing.

        Unless names were given, one whose `credential` is going to be checked is: a page that borrows our address has
        none that holds.
        """
        if self.every or not host:
            return True
        found = _HOST.fullmatch(host)
        if found is None:
            return False
        name = found["name"].lower().rstrip(".")
        if not self.strict and (credential or "." not in name or name.endswith(_LOCAL)):
            return True  # first: it is what nearly every request has, and costs nothing
        return name in self.names or name == "localhost" or _is_address(name) or _is_below(name, self.names)


def read_gateway_address(text: str) -> str:
    """The setting `gateway_address`, an http or https address, as addresses are written; raises SettingInvalid.

    The host may be a bare IPv6 address, without brackets, as Kubernetes says a pod's: the port is what comes last.
    """
    found = _ADDRESS.fullmatch(text)
    host = "" if found is None else found["host"]
    if ":" in host:
        host = in_brackets(host.removeprefix("[").removesuffix("]"))
    if found is None or int(found["port"]) > 65_535 or (":" in host and not _is_address(host)):
        raise SettingInvalid("gateway_address must be http://host:port or https://host:port")
    return f"{found['scheme']}://{host}:{found['port']}"


def in_brackets(host: str) -> str:
    """A host as it stands before a port: an IPv6 address has brackets there."""
    return f"[{host}]" if ":" in host else host


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name.removeprefix("[").removesuffix("]"))
    except ValueError:
        return False
    return True


def _is_below(name: str, names: Iterable[str]) -> bool:
    return any(each.startswith("*.") and name.endswith(each[1:]) for each in names)
