"""The Python client: `Client` for code that blocks, `AsyncClient` for asyncio, `SandcellError` for what goes wrong.

from sandcell import Client

with Client() as client, client.session(environment="python") as session:
    session.run("x = 41")
    print(session.run("x + 1").text)
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sandcell.blocking import Client, LiveSession
    from sandcell.errors import (
        Conflict,
        ConnectionFailed,
        Forbidden,
        InvalidRequest,
        LimitReached,
        NotFound,
        SandcellError,
        ServiceUnavailable,
        StillRunning,
        Unauthorized,
    )
    from sandcell.nonblocking import AsyncClient, AsyncLiveSession
    from sandcell.result import Display, Result

__all__ = [
    "AsyncClient",
    "AsyncLiveSession",
    "Client",
    "Conflict",
    "ConnectionFailed",
    "Display",
    "Forbidden",
    "InvalidRequest",
    "LimitReached",
    "LiveSession",
    "NotFound",
    "Result",
    "SandcellError",
    "ServiceUnavailable",
    "StillRunning",
    "Unauthorized",
]

_MODULES = {
    "Client": "blocking",
    "LiveSession": "blocking",
    "AsyncClient": "nonblocking",
    "AsyncLiveSession": "nonblocking",
    "Display": "result",
    "Result": "result",
}
"""Where each name is; all others are errors."""


def __getattr__(name: str) -> Any:
    """Import what is asked for at its first use: the service needs the shapes alone, and `--help` no HTTP at all."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{_MODULES.get(name, 'errors')}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
