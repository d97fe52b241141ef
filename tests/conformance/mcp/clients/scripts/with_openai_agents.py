"""The MCP client of OpenAI's Agents SDK, over either transport: `with_openai_agents.py TRANSPORT URL TOKEN COMMAND`."""

from __future__ import annotations

import asyncio
import json
import sys
from importlib.metadata import version
from typing import Any

from agents.mcp import MCPServerStdio, MCPServerStreamableHttp, MCPUtil
from steps import TOOLS, Steps

TRANSPORT, URL, TOKEN, COMMAND = sys.argv[1:5]
SECONDS = 300


def make_server() -> Any:
    if TRANSPORT == "stdio":
        program: Any = {"command": COMMAND, "args": ["mcp", "--url", URL, "--token", TOKEN]}
        return MCPServerStdio(program, client_session_timeout_seconds=SECONDS)
    address: Any = {"url": f"{URL}/mcp", "headers": {"Authorization": f"Bearer {TOKEN}"}, "timeout": SECONDS}
    return MCPServerStreamableHttp(address, client_session_timeout_seconds=SECONDS)


async def main() -> None:
    async with make_server() as server:

        async def call(tool: str, **arguments: Any) -> tuple[str, bool, int]:
            result = await server.call_tool(tool, arguments)
            texts = [each.text for each in result.content if each.type == "text"]
            failed = result.is_error if hasattr(result, "is_error") else result.isError
            return "\n".join(texts), failed, sum(each.type == "image" for each in result.content)

        async def tools() -> None:
            found = await server.list_tools()
            assert [each.name for each in found] == TOOLS, found
            functions = [MCPUtil.to_function_tool(each, server, convert_schemas_to_strict=False) for each in found]
            assert all(each.params_json_schema["type"] == "object" for each in functions)

        steps = Steps(call)
        await steps.row("tools", tools)
        await steps.every_tool()
        report = {"client": f"openai-agents {version('openai-agents')}", "steps": steps.rows}
    print(json.dumps(report))


asyncio.run(main())
