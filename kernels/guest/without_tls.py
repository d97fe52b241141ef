"""asyncio and tornado without OpenSSL, a tenth of the guest's start: it speaks over Unix sockets, and carries bytes.

What both import of `ssl` has its names here and nothing behind them; no TLS can be had in this process. Hashes are
Python's own where it has them.
"""

from __future__ import annotations

import importlib.util
import sys
import types
from typing import Any

_HASHES = ("_md5", "_sha1", "_sha3", "_blake2")


class Absent(Exception):
    """Whatever `ssl` would have: no object is an instance of it, and nothing raises it."""

    SERVER_AUTH = CLIENT_AUTH = None
    options = 0


class NoTls(types.ModuleType):
    """In the place of `ssl`."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith(("__", "OP_")):
            raise AttributeError(name)
        return Absent


def leave_out() -> None:
    """Have what is imported from now on do without OpenSSL."""
    sys.modules["ssl"] = NoTls("ssl")
    if all(importlib.util.find_spec(name) for name in _HASHES):
        sys.modules["_hashlib"] = None  # type: ignore[assignment] # Python's way to say that there is none
