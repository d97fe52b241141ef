"""The tools in the shapes of Anthropic's Messages interface. They are plain JSON: nothing is imported."""

from __future__ import annotations

import base64
from typing import Any

from sandcell.tools.blocking import BlockingToolbox
from sandcell.tools.contents import Image, Text
from sandcell.tools.model_calls import carry_out, read, read_arguments


def make_tools(tools: BlockingToolbox) -> list[dict[str, Any]]:
    """The argument `tools` of `client.messages.create`."""
    return [
        {"name": each["name"], "description": each["description"], "input_schema": each["input_schema"]}
        for each in tools.make_manifest()
    ]


def answer_calls(tools: BlockingToolbox, message: Any) -> list[dict[str, Any]]:
    """Carry out the calls in a message of the model's: the content of the user's message to send after it."""
    answers = []
    for block in read(message, "content") or []:
        if read(block, "type") != "tool_use" or not tools.has(read(block, "name")):
            continue
        result = carry_out(tools, read(block, "name"), read_arguments(read(block, "input")))
        answers.append(
            {
                "type": "tool_result",
                "tool_use_id": read(block, "id"),
                "content": [_make_block(each) for each in result.readable],
                "is_error": result.is_error,
            }
        )
    return answers


def _make_block(content: Text | Image) -> dict[str, Any]:
    if isinstance(content, Text):
        return {"type": "text", "text": content.text}
    data = base64.b64encode(content.data).decode()
    return {"type": "image", "source": {"type": "base64", "media_type": content.media_type, "data": data}}
