"""The tools as a toolkit of Agno. Needs `agno`."""

from __future__ import annotations

from typing import Any

from sandcell.tools.blocking import BlockingToolbox
from sandcell.tools.contents import ToolResult
from sandcell.tools.model_calls import import_framework


def make_toolkit(tools: BlockingToolbox) -> Any:
    """A `Toolkit` for the argument `tools` of an `Agent`, which may run it by `run` or by `arun`."""
    toolkit = import_framework("agno.tools", "agno").Toolkit(name="sandcell")
    for about in tools.make_manifest():
        _add_tool(toolkit, tools, about)
    return toolkit


def _add_tool(toolkit: Any, tools: BlockingToolbox, about: dict[str, Any]) -> None:
    module = import_framework("agno.tools.function", "agno")
    name = about["name"]

    def run(**arguments: Any) -> Any:
        return _make_result(tools.call(name, arguments))

    async def run_async(**arguments: Any) -> Any:
        return _make_result(await tools.call_async(name, arguments))

    for functions, entrypoint in ((toolkit.functions, run), (toolkit.async_functions, run_async)):
        functions[name] = module.Function(
            name=name,
            description=about["description"],
            parameters=about["input_schema"],
            entrypoint=entrypoint,
            skip_entrypoint_processing=True,  # the schema is there already, and is not to be guessed from `run`
        )


def _make_result(result: ToolResult) -> Any:
    media = import_framework("agno.media", "agno")
    images = [media.Image(content=each.data, mime_type=each.media_type) for each in result.images]
    return import_framework("agno.tools.function", "agno").ToolResult(content=result.text, images=images or None)
