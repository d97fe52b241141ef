"""The tools as LlamaIndex's, for its agents and workflows. Needs `llama-index-core`."""

from __future__ import annotations

from typing import Any

from sandcell.tools.blocking import BlockingToolbox
from sandcell.tools.contents import Image, Text, ToolResult
from sandcell.tools.model_calls import import_framework


def make_tools(tools: BlockingToolbox) -> list[Any]:
    """An `AsyncBaseTool` for each; they can be called from threads and from event loops."""
    return [_make_tool(tools, each) for each in tools.make_manifest()]


def _make_tool(tools: BlockingToolbox, about: dict[str, Any]) -> Any:
    module = import_framework("llama_index.core.tools", "llama-index-core")
    metadata_base: Any = module.ToolMetadata
    tool_base: Any = import_framework("llama_index.core.tools.types", "llama-index-core").AsyncBaseTool
    name = about["name"]

    class Metadata(metadata_base):  # type: ignore[misc]
        """The schema as it is, where LlamaIndex would make one from a class of arguments."""

        def get_parameters_dict(self) -> dict[str, Any]:
            schema: dict[str, Any] = about["input_schema"]
            return schema

    class SandcellTool(tool_base):  # type: ignore[misc]
        """Carries out one tool of the toolbox."""

        metadata = Metadata(description=about["description"], name=name)

        def call(self, **arguments: Any) -> Any:
            return _make_output(module, name, arguments, tools.call(name, arguments))

        async def acall(self, **arguments: Any) -> Any:
            return _make_output(module, name, arguments, await tools.call_async(name, arguments))

    return SandcellTool()


def _make_output(module: Any, name: str, arguments: dict[str, Any], result: ToolResult) -> Any:
    return module.ToolOutput(
        tool_name=name,
        blocks=[_make_block(each) for each in result.readable],
        raw_input={"args": (), "kwargs": arguments},
        raw_output=result,
        is_error=result.is_error,
    )


def _make_block(content: Text | Image) -> Any:
    blocks = import_framework("llama_index.core.llms", "llama-index-core")
    if isinstance(content, Text):
        return blocks.TextBlock(text=content.text)
    return blocks.ImageBlock(image=content.data, image_mimetype=content.media_type)
