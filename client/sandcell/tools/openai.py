"""The tools in the shapes of OpenAI's Responses and Chat Completions interfaces: plain JSON, nothing is imported.

What a model answered is taken as the SDK's objects or as the JSON itself.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Any

from sandcell.tools.blocking import BlockingToolbox
from sandcell.tools.contents import Image, ToolResult
from sandcell.tools.model_calls import carry_out, read, read_arguments


def make_tools(tools: BlockingToolbox) -> list[dict[str, Any]]:
    """The argument `tools` of `client.responses.create`."""
    return [
        {
            "type": "function",
            "name": each["name"],
            "description": each["description"],
            "parameters": each["input_schema"],
            "strict": False,
        }
        for each in tools.make_manifest()
    ]


def answer_calls(tools: BlockingToolbox, response: Any) -> list[dict[str, Any]]:
    """Carry out the calls in a response: what to add to the next request's input; nothing when there are none."""
    return [
        {
            "type": "function_call_output",
            "call_id": read(item, "call_id"),
            "output": _make_output(carry_out(tools, read(item, "name"), read_arguments(read(item, "arguments")))),
        }
        for item in read(response, "output") or []
        if read(item, "type") == "function_call" and tools.has(read(item, "name"))
    ]


def _make_output(result: ToolResult) -> str | list[dict[str, Any]]:
    if not result.images:
        return result.text
    return [
        {"type": "input_image", "image_url": _make_url(each)}
        if isinstance(each, Image)
        else {"type": "input_text", "text": each.text}
        for each in result.readable
    ]


def make_chat_tools(tools: BlockingToolbox) -> list[dict[str, Any]]:
    """The argument `tools` of `client.chat.completions.create`."""
    return [
        {
            "type": "function",
            "function": {
                "name": each["name"],
                "description": each["description"],
                "parameters": each["input_schema"],
            },
        }
        for each in tools.make_manifest()
    ]


def answer_chat_calls(tools: BlockingToolbox, message: Any) -> list[dict[str, Any]]:
    """Carry out the calls in a message of the model's: the messages to send after it.

    A tool's message takes text alone: images follow in a message of the user's.
    """
    answers, images = list[dict[str, Any]](), list[Image]()
    for each in read(message, "tool_calls") or []:
        function = read(each, "function")
        if function is None or not tools.has(read(function, "name")):
            continue
        result = carry_out(tools, read(function, "name"), read_arguments(read(function, "arguments")))
        answers.append({"role": "tool", "tool_call_id": read(each, "id"), "content": result.text})
        images += result.images
    return [*answers, *_make_image_message(images)]


def _make_image_message(images: Sequence[Image]) -> list[dict[str, Any]]:
    parts = [{"type": "image_url", "image_url": {"url": _make_url(each)}} for each in images]
    return [{"role": "user", "content": parts}] if parts else []


def _make_url(image: Image) -> str:
    return f"data:{image.media_type};base64,{base64.b64encode(image.data).decode()}"
