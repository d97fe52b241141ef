"""File paths as they arrive in addresses: relative to the workspace, one line, no way up. Pure.

A path is text with undecodable bytes as surrogate escapes, so every name a file system takes can be said.
"""

from __future__ import annotations

from kernel_gateway.faces.errors import InvalidPath

MOST_BYTES = 4096
MOST_NAME_BYTES = 255
FORBIDDEN = {"\0": "a NUL", "\n": "a newline", "\r": "a carriage return"}


def check_path(path: str) -> str:
    """The path as given; raises InvalidPath. A backslash is a legal character of a name."""
    if not path:
        raise InvalidPath("the path is empty")
    return _check(path)


def check_directory(path: str) -> str:
    """As `checked`; the empty path and `.` are the workspace itself."""
    trimmed = path.removesuffix("/") if path != "/" else path
    return "" if trimmed in ("", ".") else _check(trimmed)


def _check(path: str) -> str:
    for character, name in FORBIDDEN.items():
        if character in path:
            raise InvalidPath(f"the path contains {name}")
    if path.startswith("/"):
        raise InvalidPath("the path is absolute; give it relative to the workspace")
    parts = path.split("/")
    if ".." in parts:
        raise InvalidPath("the path leads out of its directory: '..' is not allowed")
    if "" in parts or "." in parts:
        raise InvalidPath("the path has an empty part or a '.'")
    _check_lengths(path, parts)
    return path


def _check_lengths(path: str, parts: list[str]) -> None:
    if len(_encode(path)) > MOST_BYTES or any(len(_encode(part)) > MOST_NAME_BYTES for part in parts):
        raise InvalidPath(f"the path is longer than {MOST_BYTES} bytes, or a name in it than {MOST_NAME_BYTES}")


def _encode(text: str) -> bytes:
    """The bytes a file system would see; text from JSON may hold surrogates that no bytes stand for."""
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        raise InvalidPath("the path is not text") from None
