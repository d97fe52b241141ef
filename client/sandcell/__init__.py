"""The Python client: `Client` for code that blocks, `AsyncClient` for asyncio, `SandcellError` for what goes wrong.

from sandcell import Client

with Client() as client, client.session(environment="python") as session:
    session.run("x = 41")
    print(session.run("x + 1").text)
"""

from __future__ import annotations

import importlib
import warnings
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sandcell.async_live_session import AsyncSession
    from sandcell.blocking import Client
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
    from sandcell.events import ErrorOutput, Output, RichOutput, StreamOutput
    from sandcell.live_session import Session
    from sandcell.nonblocking import AsyncClient
    from sandcell.result import Display, Result

    LiveSession = Session
    AsyncLiveSession = AsyncSession

__all__ = [
    "AsyncClient",
    "AsyncLiveSession",
    "AsyncSession",
    "Client",
    "Conflict",
    "ConnectionFailed",
    "Display",
    "ErrorOutput",
    "Forbidden",
    "InvalidRequest",
    "LimitReached",
    "LiveSession",
    "NotFound",
    "Output",
    "Result",
    "RichOutput",
    "SandcellError",
    "ServiceUnavailable",
    "Session",
    "StillRunning",
    "StreamOutput",
    "Unauthorized",
]

_MODULES = {
    "blocking": ("Client",),
    "nonblocking": ("AsyncClient",),
    "live_session": ("Session",),
    "async_live_session": ("AsyncSession",),
    "events": ("ErrorOutput", "Output", "RichOutput", "StreamOutput"),
    "result": ("Display", "Result"),
}
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names}
"""Where each name is; all others are errors."""
_FORMER = {"LiveSession": "Session", "AsyncLiveSession": "AsyncSession"}
"""Names that go with the next release."""


def __getattr__(name: str) -> Any:
    """Import what is asked for at its first use: the service needs the shapes alone, and `--help` no HTTP at all."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if name in _FORMER:
        now = _FORMER[name]
        warnings.warn(f"{name} is {now} now; this name goes with the next release", DeprecationWarning, stacklevel=2)
        return getattr(importlib.import_module(f"{__name__}.{_MODULE_OF[now]}"), now)
    value = getattr(importlib.import_module(f"{__name__}.{_MODULE_OF.get(name, 'errors')}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
