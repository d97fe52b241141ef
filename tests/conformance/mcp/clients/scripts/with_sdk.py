"""The official SDK, of either generation, over either transport: `with_sdk.py TRANSPORT URL TOKEN COMMAND`."""

from __future__ import annotations

import asyncio
import json
import sys
from contextlib import AsyncExitStack
from importlib.metadata import version
from typing import Any

from mcp import StdioServerParameters
from mcp.client.stdio import stdio_client
from steps import TICKS, TOOLS, Steps

TRANSPORT, URL, TOKEN, COMMAND = sys.argv[1:5]
ENDLESS = "import time; open('begun', 'w').close(); time.sleep(600)"
NEWEST = int(version("mcp").split(".")[0]) >= 2


async def connect(stack: AsyncExitStack) -> Any:
    """A session that has been initialized."""
    if TRANSPORT == "stdio":
        streams = stdio_client(StdioServerParameters(command=COMMAND, args=["mcp", "--url", URL, "--token", TOKEN]))
    elif NEWEST:
        import httpx2
        from mcp.client.streamable_http import streamable_http_client

        http = httpx2.AsyncClient(headers={"Authorization": f"Bearer {TOKEN}"}, timeout=120)
        streams = streamable_http_client(f"{URL}/mcp", http_client=http)
    else:
        from mcp.client.streamable_http import streamablehttp_client

        streams = streamablehttp_client(f"{URL}/mcp", headers={"Authorization": f"Bearer {TOKEN}"})
    if NEWEST:
        from mcp import Client

        return await stack.enter_async_context(Client(streams))
    from mcp import ClientSession

    opened = await stack.enter_async_context(streams)
    session = await stack.enter_async_context(ClientSession(opened[0], opened[1]))
    await session.initialize()
    return session


async def main() -> None:
    async with AsyncExitStack() as stack:
        session = await connect(stack)

        async def call(tool: str, **arguments: Any) -> tuple[str, bool, int]:
            result = await session.call_tool(tool, arguments)
            texts = [each.text for each in result.content if each.type == "text"]
            images = [each for each in result.content if each.type == "image"]
            return "\n".join(texts), result.is_error if NEWEST else result.isError, len(images)

        async def tools() -> None:
            found = {each.name: each for each in (await session.list_tools()).tools}
            assert list(found) == TOOLS, list(found)
            hints = found["run_python"].annotations.model_dump(by_alias=True)
            assert hints["openWorldHint"] is False, hints
            assert "Network: none" in found["run_python"].description

        async def progress() -> None:
            seen: list[str] = []

            async def note(_progress: float, _total: float | None, message: str | None) -> None:
                seen.append(message or "")

            result = await session.call_tool("run_python", {"code": TICKS}, progress_callback=note)
            assert result.content[0].text.count("tick") == 5
            assert any(each.startswith("tick") for each in seen), seen

        async def cancelling() -> None:
            running = asyncio.create_task(session.call_tool("run_python", {"code": ENDLESS}))
            while "begun" not in (await call("list_files"))[0]:
                await asyncio.sleep(0.05)
            if NEWEST or TRANSPORT == "stdio":
                running.cancel()
                await asyncio.wait({running})
            if not NEWEST:  # it has no way to cancel a request but its message
                await cancel_by_message()
                await asyncio.wait({running})
            # The session takes one run at a time: this one comes after the one that was interrupted.
            assert (await asyncio.wait_for(call("run_python", code="'free'"), 60))[0] == "'free'"

        async def key_of_ones_own() -> None:
            """A call that is repeated with its key runs nothing again."""
            for _ in range(2):
                code, meta = "open('once', 'a').write('x')", {"sandcell/idempotency-key": "mine"}
                result = await session.call_tool("run_python", {"code": code}, meta=meta)
                assert result.content[0].text == "1"
            assert (await call("read_file", path="once"))[0] == "x"

        async def cancel_by_message() -> None:
            from mcp import types

            params = types.CancelledNotificationParams(requestId=session._request_id - 2)
            for back in (1, 2, 3, 4):
                params.requestId = session._request_id - back
                note = types.CancelledNotification(method="notifications/cancelled", params=params.model_copy())
                await session.send_notification(types.ClientNotification(note))

        async def resources() -> None:
            found = (await session.list_resources()).resources
            notebook = next(each for each in found if str(each.uri).endswith("/notebook"))
            read = (await session.read_resource(notebook.uri if not NEWEST else str(notebook.uri))).contents[0]
            assert json.loads(read.text)["nbformat"] == 4
            templates = await session.list_resource_templates()
            kept = templates.resource_templates if NEWEST else templates.resourceTemplates
            assert len(kept) == 3

        steps = Steps(call)
        await steps.row("tools", tools)
        await steps.every_tool()
        await steps.row("progress", progress)
        await steps.row("cancelling", cancelling)
        await steps.row("key", key_of_ones_own)
        await steps.row("resources", resources)
        report = {"client": f"mcp {version('mcp')}", "steps": steps.rows}
    print(json.dumps(report))


asyncio.run(main())
