"""What the modules for models' interfaces share: reading what a model asks for, and carrying it out."""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import Any

import msgspec

from sandcell.tools.blocking import BlockingToolbox
from sandcell.tools.contents import ToolResult, make_text


def read(value: Any, name: str) -> Any:
    """A member of an SDK's object, or of JSON; None where there is none."""
    return value.get(name) if isinstance(value, dict) else getattr(value, name, None)


def read_arguments(text: Any) -> dict[str, Any] | str:
    """The arguments of a call, which models write as JSON; the text itself where it is none."""
    if isinstance(text, dict):
        return text
    try:
        return msgspec.json.decode(text or "{}", type=dict[str, Any])
    except msgspec.DecodeError:
        return str(text)


def carry_out(tools: BlockingToolbox, name: str, arguments: dict[str, Any] | str) -> ToolResult:
    """The result of a call, also of one whose arguments cannot be read."""
    if isinstance(arguments, str):
        return make_text(f"{name} failed: its arguments are no JSON object", is_error=True)
    return tools.call(name, arguments)


def import_framework(name: str, package: str) -> ModuleType:
    """A framework's module; where it is missing, the error says what to install."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        message = f"these tools need {package}: pip install {package}"
        raise ImportError(message, name=name) from error
