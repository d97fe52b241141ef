"""The arguments of a tool, as the service's model has them: one flat structure for all nine tools.

All of them are optional here; what each tool needs is checked in `checks`. A null counts as absent.
"""

from __future__ import annotations

import msgspec


class FileContent(msgspec.Struct):
    """One file of writeFiles: `text` or `blob`, which comes as base64."""

    path: str
    text: str | None = None
    blob: bytes | None = None


class Arguments(msgspec.Struct, rename="camel"):
    """What a caller may give; other members are ignored, as the model's clients expect."""

    code: str | None = None
    language: str | None = None
    runtime: str | None = None
    clear_context: bool | None = None
    command: str | None = None
    path: str | None = None
    paths: list[str] | None = None
    content: list[FileContent] | None = None
    directory_path: str | None = None
    task_id: str | None = None
