"""The Python client: `Client` for code that blocks, `AsyncClient` for asyncio, `SandcellError` for what goes wrong.

from kernel_gateway.client import Client

with Client() as client, client.session(environment="python") as session:
    session.run("x = 41")
    print(session.run("x + 1").text)
"""

from kernel_gateway.client.blocking import Client, LiveSession
from kernel_gateway.client.errors import (
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
from kernel_gateway.client.nonblocking import AsyncClient, AsyncLiveSession
from kernel_gateway.client.result import Display, Result

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
