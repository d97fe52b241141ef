"""The content of requests to run code and of their replies. Pure."""

from __future__ import annotations

from typing import Any


def execute_request(code: str, *, silent: bool = False) -> dict[str, Any]:
    """The content of a request to run code without a person at a keyboard."""
    return {
        "code": code,
        "silent": silent,
        "store_history": not silent,
        "user_expressions": {},
        "allow_stdin": False,
        "stop_on_error": False,
    }


def pages_in(reply: dict[str, Any]) -> list[dict[str, Any]]:
    """What a reply asks to be shown in a pager (`name?` does), as displays."""
    payload = reply.get("payload")
    return [
        each
        for each in (payload if isinstance(payload, list) else [])[:10]
        if isinstance(each, dict) and each.get("source") == "page"
    ]
