"""What a notebook says, written so that editors which save it again change nothing: the form that is hashed. Pure."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any


def digest(value: Any) -> str:
    """SHA-256 over canonical JSON: keys sorted, no spaces, UTF-8, every whole number written the same."""
    text = json.dumps(_plain(value), sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def output(shown: Any) -> Any:
    """An output with its texts in one piece; what is JSON stays as it is."""
    if not isinstance(shown, Mapping):
        return shown
    made = dict(shown)
    if "text" in made:
        made["text"] = join_text(made["text"])
    if isinstance(made.get("data"), Mapping):
        made["data"] = {kind: value if _is_json(kind) else join_text(value) for kind, value in made["data"].items()}
    return made


def join_text(text: Any) -> Any:
    """nbformat allows a text to be a list of lines."""
    lines = isinstance(text, list) and all(isinstance(line, str) for line in text)
    return "".join(text) if lines else text


def _is_json(media_type: Any) -> bool:
    return isinstance(media_type, str) and media_type.startswith("application/") and media_type.endswith("json")


def _plain(value: Any) -> Any:
    """To a browser 1.0 and 1 are one."""
    if isinstance(value, Mapping):
        return {str(name): _plain(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_plain(each) for each in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value
