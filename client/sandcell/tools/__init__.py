"""Tools for models: run code, shell commands and files in a session, as functions and schemas without a protocol.

from sandcell.tools import open_toolbox

async with open_toolbox() as tools:
    print((await tools.call("run_python", {"code": "1 + 1"})).text)

`definitions` has what the tools are, `toolbox` carries them out, `manifest` and `rendering` say what a model reads; MCP
(`sandcell.mcp`) and the modules named for frameworks (`openai`, `langchain` ...) give them the shapes of theirs. No
framework is a dependency: each is imported when its module is used.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

from sandcell.tools.contents import Image, Link, Text, ToolResult
from sandcell.tools.toolbox import OUTPUT_BYTES, Toolbox

if TYPE_CHECKING:
    from sandcell.tools.blocking import BlockingToolbox

__all__ = ["BlockingToolbox", "Image", "Link", "Text", "ToolResult", "Toolbox", "open_toolbox"]


@contextlib.asynccontextmanager
async def open_toolbox(
    environment: str | None = None,
    *,
    session_id: str | None = None,
    url: str | None = None,
    token: str | None = None,
    output_bytes: int = OUTPUT_BYTES,
) -> AsyncIterator[Toolbox]:
    """The tools over a service, for the length of an `async with` block, at whose end the sessions it started stop.

    `environment` is what the session is made from, `session_id` one that runs already and goes on afterwards. The
    service is found as `AsyncClient` finds it.
    """
    from sandcell.nonblocking import AsyncClient  # noqa: PLC0415 - the service imports the tools without any HTTP
    from sandcell.tools.backends.over_rest import RestBackend  # noqa: PLC0415

    async with AsyncClient(url, token) as client:
        toolbox = Toolbox(
            RestBackend(client),
            environment=environment,
            session_id=session_id,
            name="tools",
            output_bytes=output_bytes,
        )
        try:
            yield toolbox
        finally:
            await toolbox.aclose()


def __getattr__(name: str) -> Any:
    """`BlockingToolbox`, whose threads the service has no use for."""
    if name == "BlockingToolbox":
        from sandcell.tools.blocking import BlockingToolbox  # noqa: PLC0415

        return BlockingToolbox
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
