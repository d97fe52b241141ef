"""From a name to addresses, on threads of its own: a name server that says nothing holds up nobody else."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final

Resolve = Callable[[str, int], Awaitable[list[str]]]
"""The addresses of a host name as text, in the order to try them; raises OSError when there are none.

A name with a final dot is absolute: no search domain is tried.
"""

THREADS: Final = 64
_threads = ThreadPoolExecutor(THREADS, "resolver")  # starts none before the first name


async def system_resolve(host: str, port: int) -> list[str]:
    """What this host's resolver says."""

    def ask() -> list[str]:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        return list(dict.fromkeys(str(address[0]) for *_, address in found))

    return await asyncio.get_running_loop().run_in_executor(_threads, ask)
