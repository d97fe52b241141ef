"""Whose address a request came from, also behind proxies that are trusted to say so. Pure.

Each proxy adds the address it was asked from to the end of `X-Forwarded-For`. Read from there, the first address that
is no trusted proxy's is the client's; what stands before it is anybody's to write. Without trusted proxies the header
is not read at all.
"""

from __future__ import annotations

from functools import cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Any, Final

Networks = tuple[IPv4Network | IPv6Network, ...]
MOST_HOPS: Final = 20
"""Addresses at the end of the header that are looked at."""
HEADER: Final = "X-Forwarded-For"
MARK: Final = "Sandcell-Forwarded"
"""Of a request that one of several gateways passes on to another: which one did."""


def make_marked_headers(request: Any, gateway_id: str) -> list[tuple[str, str]]:
    """A tornado request's headers for the gateway that it is passed on to, but for those of its connection."""
    headers = [
        (name, value)
        for name, value in request.headers.get_all()
        if name.lower() not in {"connection", "keep-alive", "proxy-connection", HEADER.lower(), MARK.lower()}
    ]
    hops = [*request.headers.get_list(HEADER), request.remote_ip or ""]
    return [*headers, (HEADER, ", ".join(filter(None, hops))), (MARK, gateway_id)]


@cache
def parse_networks(text: str) -> Networks:
    """Addresses and networks with commas between; raises ValueError."""
    return tuple(ip_network(each.strip()) for each in text.split(",") if each.strip())


def find_client_address(request: Any, trusted_proxies: str) -> str:
    """The client's address of a tornado request."""
    peer = request.remote_ip or ""
    trusted = parse_networks(trusted_proxies)
    return find_nearest(peer, request.headers.get(HEADER, ""), trusted) if trusted else peer


def find_nearest(peer: str, forwarded_for: str, trusted: Networks) -> str:
    """The nearest address that is not a trusted proxy's; what is no address ends the search where it stands."""
    hops = [each.strip() for each in forwarded_for.split(",")][-MOST_HOPS:] if forwarded_for else []
    nearest = peer
    while hops and _is_trusted(nearest, trusted):
        found = _parse_address(hops.pop())
        if found is None:
            break
        nearest = str(found)
    return nearest


def _is_trusted(text: str, trusted: Networks) -> bool:
    address = _parse_address(text)
    return address is not None and any(address in each for each in trusted)


def _parse_address(text: str) -> IPv4Address | IPv6Address | None:
    """An address, which some proxies write with a port."""
    if text.startswith("["):
        text = text[1:].partition("]")[0]
    elif text.count(":") == 1:
        text = text.partition(":")[0]
    try:
        address = ip_address(text)
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return mapped or address
