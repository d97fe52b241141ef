"""What kind of address an address is. Only `public` ones may be reached without an operator's word. Pure.

The tables are written out, from the special-purpose registries of IANA, since what the standard library calls global
differs from one Python to the next. Addresses that carry an IPv4 address in them are what that one is, or refused.
"""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import Final

Address = IPv4Address | IPv6Address

PUBLIC: Final = "public"
PRIVATE: Final = ("private", "shared")
"""The kinds that an operator may declare by name; the others need the address itself."""

_METADATA: Final = frozenset(
    ip_address(one)
    for one in (
        "169.254.169.254",
        "169.254.169.253",
        "169.254.169.123",
        "169.254.170.2",
        "169.254.170.23",
        "168.63.129.16",
        "100.100.100.200",
        "192.0.0.192",
        "fd00:ec2::254",
        "fd00:ec2::253",
        "fd00:ec2::23",
        "fd20:ce::254",
    )
)
"""Where clouds tell a machine its secrets. One of them, 168.63.129.16, is in a public range."""

_IPV4: Final = tuple(
    (IPv4Network(network), kind)
    for network, kind in (
        ("0.0.0.0/8", "unspecified"),
        ("10.0.0.0/8", "private"),
        ("100.64.0.0/10", "shared"),
        ("127.0.0.0/8", "loopback"),
        ("169.254.0.0/16", "link_local"),
        ("172.16.0.0/12", "private"),
        ("192.0.0.0/24", "reserved"),
        ("192.0.2.0/24", "reserved"),
        ("192.88.99.0/24", "transition"),
        ("192.168.0.0/16", "private"),
        ("198.18.0.0/15", "reserved"),
        ("198.51.100.0/24", "reserved"),
        ("203.0.113.0/24", "reserved"),
        ("224.0.0.0/4", "multicast"),
        ("240.0.0.0/4", "reserved"),
    )
)

_IPV6: Final = tuple(
    (IPv6Network(network), kind)
    for network, kind in (
        ("::/128", "unspecified"),
        ("::1/128", "loopback"),
        ("fc00::/7", "private"),
        ("fec0::/10", "private"),
        ("fe80::/10", "link_local"),
        ("ff00::/8", "multicast"),
        ("2001::/23", "transition"),
        ("2001:db8::/32", "reserved"),
        ("2002::/16", "transition"),
        ("3fff::/20", "reserved"),
    )
)
_GLOBAL_UNICAST: Final = IPv6Network("2000::/3")
_NAT64: Final = IPv6Network("64:ff9b::/96")
_ISATAP: Final = (0x00005EFE, 0x02005EFE)
"""The upper half of an interface id whose lower half is an IPv4 address."""


def unmap(address: Address) -> Address:
    """The address that is connected to: an IPv4-mapped one is IPv4."""
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return mapped or address


def classify(address: Address) -> str:
    """`public`, or why it is not: loopback, private, shared, link_local, metadata, multicast, reserved and so on."""
    address = unmap(address)
    if address in _METADATA:
        return "metadata"
    if isinstance(address, IPv4Address):
        return next((kind for network, kind in _IPV4 if address in network), PUBLIC)
    return _classify_ipv6(address)


def _classify_ipv6(address: IPv6Address) -> str:
    if address in _NAT64:
        return classify(IPv4Address(int(address) & 0xFFFFFFFF))
    found = next((kind for network, kind in _IPV6 if address in network), None)
    if found is not None:
        return found
    if address not in _GLOBAL_UNICAST:
        return "reserved"
    return "transition" if (int(address) >> 32) & 0xFFFFFFFF in _ISATAP else PUBLIC
