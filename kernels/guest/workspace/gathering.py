"""Many small files in one answer, read on one thread: each of them whole, or refused for itself. Blocking."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from typing import Any

from ..refusal import Refusal, of_one
from .files import Workspace, version_of

MAX_GATHERED_BYTES = 8 * 1024 * 1024
"""Of what files hold, in one answer."""
_LENGTH = 4


def gather(tree: Workspace, paths: Sequence[str]) -> bytes:
    """The length of a JSON object in four bytes; the object, with the files that were `read`, their `sizes` in this
    order, and those that were `refused`; and then what is in each of the files that were not.
    """
    contents: list[bytes] = []
    refused: list[dict[str, Any]] = []
    room = MAX_GATHERED_BYTES
    for index, path in enumerate(paths):
        try:
            contents.append(_read(tree, path, room))
            room -= len(contents[-1])
        except (OSError, Refusal) as failure:
            refused.append(of_one(index, failure))
    head = {"read": len(contents), "sizes": [len(each) for each in contents], "refused": refused}
    said = json.dumps(head).encode()
    return b"".join((len(said).to_bytes(_LENGTH, "big"), said, *contents))


def _read(tree: Workspace, path: str, room: int) -> bytes:
    descriptor, entry, version = tree.open(path)
    try:
        size = int(entry["size"])
        if size > room:
            raise Refusal(413, "too_large", "the answer has no room for it")
        content = bytearray()
        while len(content) < size and (piece := os.read(descriptor, size - len(content))):
            content += piece
        if len(content) < size or version_of(os.fstat(descriptor)) != version:
            raise Refusal(409, "file_changed", "the file changed while it was read")
        return bytes(content)
    finally:
        os.close(descriptor)
