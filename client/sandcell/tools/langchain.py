"""The tools as LangChain's, for its agents and LangGraph's. Needs `langchain-core`."""

from __future__ import annotations

import base64
from typing import Any

from sandcell.tools.blocking import BlockingToolbox
from sandcell.tools.contents import Image, Text, ToolResult
from sandcell.tools.model_calls import import_framework


def make_tools(tools: BlockingToolbox) -> list[Any]:
    """A `StructuredTool` for each; they can be called from threads and from event loops."""
    return [_make_tool(tools, each) for each in tools.make_manifest()]


def _make_tool(tools: BlockingToolbox, about: dict[str, Any]) -> Any:
    module = import_framework("langchain_core.tools", "langchain-core")
    name = about["name"]

    def run(**arguments: Any) -> str | list[dict[str, Any]]:
        return _read_result(tools.call(name, arguments), module.ToolException)

    async def run_async(**arguments: Any) -> str | list[dict[str, Any]]:
        return _read_result(await tools.call_async(name, arguments), module.ToolException)

    return module.StructuredTool(
        name=name,
        description=about["description"],
        args_schema=about["input_schema"],
        func=run,
        coroutine=run_async,
        handle_tool_error=True,
        metadata={"sandcell/constraints": about["constraints"]},
    )


def _read_result(result: ToolResult, failure: type[Exception]) -> str | list[dict[str, Any]]:
    """Text, or blocks where there are images; an error is raised, which makes a message of the status error of it."""
    if result.is_error:
        raise failure(result.text)
    if not result.images:
        return result.text
    return [_make_block(each) for each in result.readable]


def _make_block(content: Text | Image) -> dict[str, Any]:
    if isinstance(content, Text):
        return {"type": "text", "text": content.text}
    data = base64.b64encode(content.data).decode()
    return {"type": "image", "base64": data, "mime_type": content.media_type}
