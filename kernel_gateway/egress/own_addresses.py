"""Whether an address is one of this host, asked of the kernel's routing table: no list of interfaces goes stale."""

from __future__ import annotations

import socket
import struct
from ipaddress import IPv4Address
from typing import Final

from kernel_gateway.egress.addresses import Address

_ROUTE, _ASK, _REQUEST, _DESTINATION = 0, 26, 1, 1  # NETLINK_ROUTE, RTM_GETROUTE, NLM_F_REQUEST, RTA_DST
_HEADER, _MESSAGE, _ATTRIBUTE = struct.Struct("=IHHII"), struct.Struct("=8BI"), struct.Struct("=HH")
_ANSWER: Final = 24  # RTM_NEWROUTE; what else comes is an error: there is no route
_HERE: Final = (2, 3, 4, 5)  # RTN_LOCAL, RTN_BROADCAST, RTN_ANYCAST, RTN_MULTICAST
_SECONDS: Final = 2


def is_own(address: Address) -> bool:
    """Whether what is sent there stays here, or goes to all of a network. Raises OSError when the kernel is silent."""
    family = socket.AF_INET if isinstance(address, IPv4Address) else socket.AF_INET6
    size = _ATTRIBUTE.size + len(address.packed)
    message = _MESSAGE.pack(family, address.max_prefixlen, 0, 0, 0, 0, 0, 0, 0)
    message += _ATTRIBUTE.pack(size, _DESTINATION) + address.packed
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _ROUTE) as kernel:
        kernel.settimeout(_SECONDS)
        kernel.send(_HEADER.pack(_HEADER.size + len(message), _ASK, _REQUEST, 1, 0) + message)
        answer = kernel.recv(8192)
    what = _HEADER.unpack_from(answer)[1]
    return what == _ANSWER and _MESSAGE.unpack_from(answer, _HEADER.size)[7] in _HERE
