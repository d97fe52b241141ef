"""Ids as LibreChat has them, 21 characters of base64url, and what they stand for here. Pure.

A storage session's id is its workspace's UUID without the six bits that are the same in all of them. A file's id is
made from its path, so that it stays when the file changes.
"""

from __future__ import annotations

import hashlib
import re
import uuid
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Mapping
from typing import Final
from urllib.parse import unquote

from kernel_gateway.errors import InvalidRequest, NotFound

PREFIX: Final = "/librechat/"
KEY: Final = "X-Api-Key"
LONGEST_PATH: Final = 1_024
_ID: Final = re.compile(r"[A-Za-z0-9_-]{21}")
_ADDRESS: Final = re.compile(r"(?:(?i:https?)://[^/]*)?/+librechat/+(.*)", re.DOTALL)
"""As clients send it to a proxy, too, and with slashes to spare."""
_LOW: Final = 62
"""Bits behind the variant of a UUID; before them come twelve more, and 48 before its version."""


def format_id(workspace_id: str) -> str:
    """The id of the storage session that a workspace is."""
    value = uuid.UUID(workspace_id).int
    bits = (value >> 80) << 74 | (value >> 64 & 0xFFF) << _LOW | value & ((1 << _LOW) - 1)
    return _encode(bits << 4)


def parse_id(text: str) -> str:
    """The workspace of a storage session's id; raises NotFound."""
    if not _ID.fullmatch(text):
        raise NotFound("there is no such session")
    found = _make_uuid(int.from_bytes(urlsafe_b64decode(text + "AAA")) >> 22)
    if format_id(found) != text:  # some of its last bits are none of a UUID's
        raise NotFound("there is no such session")
    return found


def _make_uuid(bits: int) -> str:
    value = (bits >> 74) << 80 | 4 << 76 | (bits >> _LOW & 0xFFF) << 64 | 2 << 62 | bits & ((1 << _LOW) - 1)
    return str(uuid.UUID(int=value))


def _encode(bits: int) -> str:
    """The first 21 characters of a number below 2 ** 126, so many bits."""
    return urlsafe_b64encode((bits << 2).to_bytes(16)).decode()[:21]


def name_session(principal_id: str, hint: str, number: int = 0) -> str:
    """The session and workspace of a conversation that its client names, of the form that others have.

    `number` counts those of the conversation that were removed.
    """
    name = f"librechat {principal_id} {hint}" if not number else f"librechat {number} {principal_id} {hint}"
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).digest()
    return str(uuid.UUID(bytes=digest[:16], version=4))


def identify_file(path: str) -> str:
    """The id of the file at a path of its workspace."""
    return urlsafe_b64encode(hashlib.sha256(path.encode("utf-8", "surrogateescape")).digest()).decode()[:21]


def split_token(path: str) -> tuple[str, str]:
    """A request's path as the table of routes has it, and the token that stands in it, for clients that send none.

    What stands before the version is the token. An address without a version leads nowhere: nothing of it is kept.
    """
    found = _ADDRESS.fullmatch(path)
    if found is None:
        return path, ""
    parts = found[1].split("/")
    if "v1" not in parts:
        return PREFIX, unquote(parts[0])
    version = parts.index("v1")
    return PREFIX + "/".join(parts[version:]), unquote("/".join(parts[:version]).rstrip("/"))


def find_token(headers: Mapping[str, str]) -> str:
    """The token that a request's headers bring; empty when they bring none."""
    scheme, _, bearer = headers.get("Authorization", "").partition(" ")
    return headers.get(KEY) or (bearer.strip() if scheme.lower() == "bearer" else "")


def clean_path(name: str) -> str:
    """A file's name as a path below /mnt/data; raises InvalidRequest."""
    parts = [part for part in name.replace("\\", "/").removeprefix("/mnt/data/").split("/") if part not in ("", ".")]
    path = "/".join(parts)
    try:
        size = len(path.encode("utf-8", "surrogateescape"))
    except UnicodeEncodeError:
        raise InvalidRequest("a file's name is valid Unicode text") from None
    if not parts or ".." in parts or "\0" in path or size > LONGEST_PATH:
        raise InvalidRequest(f"a file's name is a path below /mnt/data, of at most {LONGEST_PATH:,} bytes")
    return path
