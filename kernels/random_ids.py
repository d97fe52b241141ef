"""Random UUIDs (version 4) for what each execution needs: the system is asked for random bytes of many at once.

Asking lets the interpreter go, and on a busy loop the thread that takes it meanwhile costs more than the id. For one
process on one thread; a child that goes on after a fork would hand out its parent's.
"""

from __future__ import annotations

import os
from typing import Final

_SIZE: Final = 16
_AT_ONCE: Final = 256
_left: list[bytes] = []


def new_hex() -> str:
    """32 digits."""
    if not _left:
        drawn = os.urandom(_SIZE * _AT_ONCE)
        _left.extend(drawn[start : start + _SIZE] for start in range(0, len(drawn), _SIZE))
    bits = int.from_bytes(_left.pop(), "big")
    # As RFC 9562 has it: four bits say the version, two the variant.
    return f"{bits & ~(0xF000 << 64) & ~(0xC000 << 48) | 0x4000 << 64 | 0x8000 << 48:032x}"


def new_id() -> str:
    """The same with its hyphens."""
    drawn = new_hex()
    return f"{drawn[:8]}-{drawn[8:12]}-{drawn[12:16]}-{drawn[16:20]}-{drawn[20:]}"
