"""Reaching the sockets of a sandbox by name: the guest's, and those of its kernels.

`Dial` is what those who talk to a sandbox are given; how a connection is made is the runtime's business.
"""

from __future__ import annotations

import socket
from typing import Final, Protocol

POLL_SECONDS: Final = 0.003
PATIENCE_SECONDS: Final = 1.0
"""Longest wait of one call for a listener; a caller that waits longer calls again."""

GUEST: Final = "guest"
RELAY: Final = "relay"


class Dial(Protocol):
    """Connects to one sandbox: `guest`, `relay`, `kernel/g<generation>-<1..5>`, `kernel/deno-g<generation>-<1..4>`, or
    `kernel/spec-g<generation>-<1..4>`.
    """

    async def __call__(self, name: str, *, patience_seconds: float = 0) -> socket.socket:
        """A connected, non-blocking stream socket.

        Raises `NotListening` when nothing listened in all that time, `NotReached` when that could not be seen.
        """


def kernel_socket(generation: int, number: int) -> str:
    """The name of one socket of a kernel."""
    return f"kernel/g{generation}-{number}"


def deno_socket(generation: int, number: int) -> str:
    """The name of one socket of the kernel for JavaScript and TypeScript."""
    return f"kernel/deno-g{generation}-{number}"


def declared_socket(generation: int, number: int) -> str:
    """The name of one socket of a kernel that the image declares; all of those count generations together."""
    return f"kernel/spec-g{generation}-{number}"
