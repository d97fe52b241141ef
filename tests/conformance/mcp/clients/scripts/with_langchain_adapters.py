"""LangChain's MCP adapters: the tools as LangChain tools. `with_langchain_adapters.py TRANSPORT URL TOKEN COMMAND`."""

from __future__ import annotations

import asyncio
import json
import sys
from importlib.metadata import version
from typing import Any

from langchain_mcp_adapters.client import MultiServerMCPClient
from langchain_mcp_adapters.tools import load_mcp_tools
from steps import TOOLS, Steps

TRANSPORT, URL, TOKEN, COMMAND = sys.argv[1:5]
CONNECTIONS: dict[str, Any] = {
    "http": {"transport": "streamable_http", "url": f"{URL}/mcp", "headers": {"Authorization": f"Bearer {TOKEN}"}},
    "stdio": {"transport": "stdio", "command": COMMAND, "args": ["mcp", "--url", URL, "--token", TOKEN]},
}


async def main() -> None:
    client = MultiServerMCPClient({"sandcell": CONNECTIONS[TRANSPORT]})
    async with client.session("sandcell") as session:
        tools = {each.name: each for each in await load_mcp_tools(session)}

        async def call(tool: str, **arguments: Any) -> tuple[str, bool, int]:
            request = {"name": tool, "args": arguments, "id": "1", "type": "tool_call"}
            message = await tools[tool].ainvoke(request)
            content, failed = message.content, message.status == "error"
            if isinstance(content, str):
                return content, failed, 0
            texts = [each["text"] for each in content if each["type"] == "text"]
            return "\n".join(texts), failed, sum(each["type"] in ("image", "image_url") for each in content)

        async def names() -> None:
            assert list(tools) == TOOLS

        steps = Steps(call)
        await steps.row("tools", names)
        await steps.every_tool()
        report = {"client": f"langchain-mcp-adapters {version('langchain-mcp-adapters')}", "steps": steps.rows}
    print(json.dumps(report))


asyncio.run(main())
