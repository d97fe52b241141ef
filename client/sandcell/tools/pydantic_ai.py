"""The tools as a toolset of pydantic-ai. Needs `pydantic-ai-slim`."""

from __future__ import annotations

from typing import Any

from sandcell.tools.blocking import BlockingToolbox
from sandcell.tools.contents import Text
from sandcell.tools.model_calls import import_framework


def make_toolset(tools: BlockingToolbox) -> Any:
    """A `FunctionToolset` for the argument `toolsets` of an `Agent`."""
    module = import_framework("pydantic_ai", "pydantic-ai-slim")
    return module.FunctionToolset([_make_tool(tools, each) for each in tools.make_manifest()])


def _make_tool(tools: BlockingToolbox, about: dict[str, Any]) -> Any:
    module = import_framework("pydantic_ai", "pydantic-ai-slim")

    async def run(**arguments: Any) -> Any:
        result = await tools.call_async(about["name"], arguments)
        if not result.images:
            return result.text
        return [
            each.text if isinstance(each, Text) else module.BinaryContent(data=each.data, media_type=each.media_type)
            for each in result.readable
        ]

    return module.Tool.from_schema(
        run, name=about["name"], description=about["description"], json_schema=about["input_schema"]
    )
