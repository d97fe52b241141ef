"""From a name to addresses."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable

Resolve = Callable[[str, int], Awaitable[list[str]]]
"""The addresses of a host name as text, in the order to try them; raises OSError when there are none."""


async def system_resolve(host: str, port: int) -> list[str]:
    """What this host's resolver says."""
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(address[0]) for *_, address in found))
