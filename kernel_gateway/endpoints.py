"""Hosts and ports as operators write them: `pypi.org:443`, `*.example.org:443`, `[2001:db8::1]:80`. Pure.

Names are lower-case ASCII, addresses in their plain notation; what a resolver might read in more than one way is
refused here, before anything is compared with it. Raises `ValueError` with a sentence.
"""

from __future__ import annotations

import ipaddress
import re

from kernels.environment import Endpoint

HTTPS_PORT = 443
LONGEST_NAME = 253
LABEL = re.compile(r"[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?")
NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")
METHOD = re.compile(r"[A-Z]{1,20}")
PATH = re.compile(r"/[A-Za-z0-9._~!$&'()*+,;=:@/-]*")


def parse_endpoint(text: str) -> Endpoint:
    """`host:port`, the port being 443 when it is left out; an IPv6 address stands in brackets."""
    bracketed = re.fullmatch(r"\[([^\]]*)\](?::([0-9]+))?", text)
    plain = re.fullmatch(r"([^:\[\]]*)(?::([0-9]+))?", text)
    found = bracketed or plain
    if found is None:
        raise ValueError(f"{text!r} is no host and port: write it as example.org:443 or [2001:db8::1]:443")
    return Endpoint(parse_host(found[1]), check_port(int(found[2])) if found[2] else HTTPS_PORT)


def parse_endpoints(text: str) -> tuple[Endpoint, ...]:
    """Several, parted by commas; an empty text has none. Each must name its port."""
    parts = [part.strip() for part in text.split(",") if part.strip()]
    for part in parts:
        if not re.search(r":[0-9]+$", part):
            raise ValueError(f"{part!r} has no port: write it as host:port")
    return tuple(parse_endpoint(part) for part in parts)


def parse_host(text: str) -> str:
    """A name, `*.` and a domain, or an address, in the one form they are compared in."""
    address = _parse_address(text)
    if address is not None:
        return str(address)
    name = text.lower().removesuffix(".")
    if name == "*":
        raise ValueError("'*' would allow every host: name domains as *.example.org, or use network = \"PUBLIC\"")
    labels = name.removeprefix("*.").split(".")
    if not name or len(name) > LONGEST_NAME or not all(LABEL.fullmatch(label) for label in labels):
        raise ValueError(
            f"{text!r} is no host: give a name (international ones as xn--...), *. and a domain, or an address"
        )
    if NUMBER.fullmatch(labels[-1]):
        raise ValueError(f"{text!r} is no address in its plain notation: write IPv4 as four decimal numbers")
    if name.startswith("*.") and len(labels) < 2:
        raise ValueError(f"{text!r} would allow a whole top-level domain: name a domain below it")
    return name


def _parse_address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return None
    if isinstance(address, ipaddress.IPv6Address) and (address.scope_id or address.ipv4_mapped):
        raise ValueError(f"{text!r} is no host: give an IPv6 address without a zone, an IPv4 address as itself")
    return address


def check_port(number: int) -> int:
    if not 1 <= number <= 65_535:
        raise ValueError(f"a port is between 1 and 65,535, not {number}")
    return number


def check_method(text: str) -> str:
    """A method of plain HTTP."""
    if text == "CONNECT":
        raise ValueError("CONNECT opens tunnels, which need no method: leave methods out to allow them")
    if not METHOD.fullmatch(text):
        raise ValueError(f"{text!r} is no method: they are written in capitals, as GET")
    return text


def check_path_prefix(text: str) -> str:
    """How a path begins: absolute, with nothing in it that servers read in different ways."""
    if not PATH.fullmatch(text) or "//" in text or {".", ".."} & set(text.split("/")):
        raise ValueError(
            f"{text!r} is no path prefix: it starts with / and has no //, no . or .. as a name, no %, ? or #"
        )
    return text


def check_narrowing(whole: Endpoint) -> Endpoint:
    """The endpoint, if what narrows it can ever be seen: tunnels, and so HTTPS, hide methods and paths."""
    if (whole.methods or whole.path_prefix) and whole.port == HTTPS_PORT:
        raise ValueError(
            f"methods and path_prefix narrow plain HTTP, and port {HTTPS_PORT} is that of HTTPS, which hides both: "
            "give the port of plain HTTP, or leave them out"
        )
    return whole
