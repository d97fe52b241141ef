"""Paths of a workspace and the store keys they become (pure).

A path is bytes, relative, `/` between its names. Its key is text in which plain names stay as they are and every other
byte becomes `%XX`; `path_of(key_of(path)) == path`. A path whose key would be too long for a store gets the key
`%long/<sha256>` instead (`%lo` is no escape, so no path's key looks like it); the manifest holds its true path.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from functools import lru_cache

from workspace_sync.errors import IllegalName

PATH_BYTES = 4096
"""Longest path that is mirrored; it also bounds how deep a tree is walked."""
NAME_BYTES = 255
"""Longest name of one file, as file systems have it, and longest part of a key."""
KEY_BYTES = 700
"""Longest key of a path; what S3's 1,024 leave after the prefixes of store and workspace."""
LONG = "%long/"

_NO_NAMES = frozenset((b"", b".", b".."))

_PLAIN = re.compile(rb"[A-Za-z0-9_.,'()=@!-]+(?: +[A-Za-z0-9_.,'()=@!-]+)*")
_PLAIN_PATH = re.compile(rb"%s(?:/%s)*" % (_PLAIN.pattern, _PLAIN.pattern))
_PLAIN_CHARACTER = re.compile(r"[A-Za-z0-9_.,'()=@!-]")
_ESCAPE = re.compile(rb"%([0-9A-Fa-f]{2})")


def check_path(path: bytes) -> bytes:
    """The path itself when a workspace can hold it; raises `IllegalName` otherwise."""
    if len(path) > PATH_BYTES:
        raise IllegalName(f"a path is {len(path)} bytes long, the limit is {PATH_BYTES}")
    if b"\0" in path:
        raise IllegalName("a path holds a NUL byte")
    names = set(path.split(b"/"))
    if not names.isdisjoint(_NO_NAMES):
        raise IllegalName(f"{escape(path)!r} is not a path inside the workspace")
    longest = max(map(len, names))
    if longest > NAME_BYTES:
        raise IllegalName(f"a name is {longest} bytes long, the limit is {NAME_BYTES}")
    return path


def path_from_text(text: str) -> bytes:
    """A caller's path (UTF-8, other bytes as surrogate escapes) as bytes, checked."""
    try:
        return check_path(text.encode("utf-8", "surrogateescape"))
    except UnicodeEncodeError as error:
        raise IllegalName("a path holds text that is no file name") from error


def text_of(path: bytes) -> str:
    """A path as callers see it: UTF-8, other bytes as surrogate escapes."""
    return path.decode("utf-8", "surrogateescape")


def escape(raw: bytes) -> str:
    """Any bytes as readable text; `unescape` is its inverse. `/` stays."""
    if _PLAIN_PATH.fullmatch(raw):
        return raw.decode("ascii")
    return "/".join(map(_escape_name, raw.split(b"/")))


def unescape(text: str) -> bytes:
    """What `escape` was given; a `%` that starts no escape stands for itself."""
    raw = text.encode("utf-8", "surrogateescape")
    return _ESCAPE.sub(lambda match: bytes([int(match[1], 16)]), raw)


def key_of(path: bytes) -> str:
    """The store key of a path, relative to the workspace's files."""
    key = escape(path)
    if len(key) <= NAME_BYTES and key.isascii():  # and so is each of its parts
        return key
    if len(key.encode()) <= KEY_BYTES and all(len(part.encode()) <= NAME_BYTES for part in key.split("/")):
        return key
    return LONG + hashlib.sha256(path).hexdigest()


def path_of(key: str) -> bytes | None:
    """The path a key stands for; None for a hashed key. Raises `IllegalName` for what is no path."""
    if key.startswith(LONG):
        return None
    return check_path(unescape(key))


def parents(path: bytes) -> list[bytes]:
    """The directories above a path, nearest first."""
    found = []
    while (cut := path.rfind(b"/")) > 0:
        path = path[:cut]
        found.append(path)
    return found


@lru_cache(maxsize=4096)
def _escape_name(name: bytes) -> str:
    if _PLAIN.fullmatch(name):
        return name.decode("ascii")
    text = name.decode("utf-8", "surrogateescape")
    normal = unicodedata.is_normalized("NFC", text)  # some stores fold the other forms into this one
    last = len(text) - 1
    return "".join(
        character if _is_kept(character, normal=normal, inner=0 < index < last) else percent_encode(character)
        for index, character in enumerate(text)
    )


def _is_kept(character: str, *, normal: bool, inner: bool) -> bool:
    if character == " ":
        return inner  # some stores trim the ends of names
    if character.isascii():
        return _PLAIN_CHARACTER.match(character) is not None
    return normal and character.isprintable()


def percent_encode(character: str) -> str:
    """A character as `%XX` for each of its bytes."""
    return "".join(f"%{byte:02X}" for byte in character.encode("utf-8", "surrogateescape"))
