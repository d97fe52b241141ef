"""What the egress proxies say of every request: who asked for what, whether it was allowed, and why. Plain values."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import msgspec

Kind = Literal["http", "connect", "s3", "packages"]


class Party(msgspec.Struct, frozen=True):
    """Whose sandbox it is."""

    session_id: str
    principal_id: str


@dataclass(frozen=True)
class Decision:
    """One request and the answer to it; said once for each.

    `target` is `host:port` of a tunnel, the URL without its query of plain HTTP, bucket and key of S3, the page or file
    of a package index. `address` is what the name resolved to, when it came to that. `reason` is a stable word, a colon
    and a sentence. A tunnel or a transfer that was allowed is recorded a second time when it is over, `ended`, with the
    bytes it moved.
    """

    party: Party
    kind: Kind
    method: str
    target: str
    address: str | None
    allowed: bool
    reason: str
    ended: bool = False
    sent_bytes: int = 0
    received_bytes: int = 0


Record = Callable[[Decision], None]
"""Takes a decision to the audit log; called on the loop, so it must not block."""
