"""The tools as those of a Strands agent. Needs `strands-agents`."""

from __future__ import annotations

from typing import Any

from sandcell.tools.blocking import BlockingToolbox
from sandcell.tools.contents import Image, Text
from sandcell.tools.model_calls import import_framework


def make_tools(tools: BlockingToolbox) -> list[Any]:
    """A `PythonAgentTool` for each, for the argument `tools` of an `Agent`."""
    return [_make_tool(tools, each) for each in tools.make_manifest()]


def _make_tool(tools: BlockingToolbox, about: dict[str, Any]) -> Any:
    module = import_framework("strands.tools.tools", "strands-agents")
    name = about["name"]

    async def run(tool_use: dict[str, Any], **_state: Any) -> dict[str, Any]:
        result = await tools.call_async(name, tool_use["input"])
        return {
            "toolUseId": tool_use["toolUseId"],
            "status": "error" if result.is_error else "success",
            "content": [_make_content(each) for each in result.readable],
        }

    schema = {"json": about["input_schema"]}
    return module.PythonAgentTool(name, {"name": name, "description": about["description"], "inputSchema": schema}, run)


def _make_content(content: Text | Image) -> dict[str, Any]:
    if isinstance(content, Text):
        return {"text": content.text}
    kind = content.media_type.removeprefix("image/")
    return {"image": {"format": kind, "source": {"bytes": content.data}}}
