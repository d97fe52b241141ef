"""What can be wrong with one file among many: distinguished from what is wrong with the session, and put in words."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TypeVar

from kernel_gateway.errors import GatewayError
from kernel_gateway.faces.agentcore.tools.paths import quote

T = TypeVar("T")
AT_ONCE = 8
"""Calls about files of one tool to the sandbox."""
TROUBLES = frozenset(
    {"not_found", "is_a_directory", "not_a_directory", "not_a_file", "is_a_link", "directory_not_empty"}
    | {"permission_denied", "invalid_path"}
)
"""Reasons of a sandbox that are about one file, and say nothing about the next one."""


async def attempt(call: Awaitable[T]) -> T | GatewayError:
    """What the call returns, or our error that it raises."""
    try:
        return await call
    except GatewayError as error:
        return error


def is_about_one(error: GatewayError) -> bool:
    """Whether it says nothing of the next file."""
    return error.details.get("reason") in TROUBLES


def describe_trouble(asked: str, error: GatewayError, what: str = "File") -> str:
    """What is wrong with one file."""
    if error.details.get("reason") == "not_found":
        return f"{what} not found: {quote(asked)}"
    return f"{quote(asked)}: {error.message[:1].lower()}{error.message[1:]}"
