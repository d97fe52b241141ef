"""Room for what callers send, shared between principals: memory and disk while it arrives, memory once it is whole.

`body_memory_bytes` is all the memory there is for bodies, whatever the face: a quarter for those that arrive, the rest
for those that are whole and what is made of them. Who holds of the second never waits for the first, so no caller
waits for itself.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from kernel_gateway.services.admission.fair_shares import FairShares, Share, share_of
from kernel_gateway.settings import Settings

TURN_SECONDS: Final = 20.0
"""How long a large request waits for its turn: less than clients wait for an answer."""
SMALL_CODE_BYTES: Final = 4_096
"""Code of up to this many bytes needs no room: how many executions may wait bounds that."""


class BodyRoom:
    """`arriving`: memory of bodies under way. `spooled`: their part on disk. `whole`: memory of complete ones.

    Code that waits in a session's queue is of the second kind. `require_disk(size)` raises NoSpace.
    """

    def __init__(self, settings: Settings, require_disk: Callable[[int], None]) -> None:
        self.directory = str(settings.state_path)
        self.require_disk = require_disk
        memory = settings.body_memory_bytes
        self.arriving = _shares("memory for bodies that arrive", memory // 4)
        self.whole = _shares("memory for its body", memory - memory // 4)
        self.spooled = _shares("disk for bodies that arrive", settings.body_disk_bytes)

    def keep_code(self, owner: str, code: str) -> Share | None:
        """Room for code as long as it waits; raises LimitReached at once: who submits it holds room for its body."""
        size = len(code.encode())
        return self.whole.take_now(owner, size) if size > SMALL_CODE_BYTES else None


def _shares(what: str, total: int) -> FairShares:
    return FairShares(what, total, share_of(total), wait_seconds=TURN_SECONDS)
