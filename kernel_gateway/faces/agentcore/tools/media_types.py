"""What a file is: its media type by its name, text or bytes by its content. Pure; tables of the host are not used."""

from __future__ import annotations

import mimetypes

OCTETS = "application/octet-stream"
TEXT = "text/plain"
_TYPES = mimetypes.MimeTypes()
for _extension, _type in {
    ".ipynb": "application/x-ipynb+json",
    ".jsonl": "application/jsonl",
    ".log": TEXT,
    ".parquet": "application/vnd.apache.parquet",
    ".toml": "application/toml",
    ".ts": "text/x-typescript",
    ".yaml": "application/yaml",
    ".yml": "application/yaml",
}.items():
    _TYPES.add_type(_type, _extension)
_PACKED = {"gzip": "application/gzip", "bzip2": "application/x-bzip2", "xz": "application/x-xz"}


def find_media_type(path: str, otherwise: str = OCTETS) -> str:
    """The media type that a file's name speaks of; `otherwise` when it speaks of none."""
    found, packed = _TYPES.guess_type(path.rpartition("/")[2].replace("?", "_").replace("#", "_"))
    if packed is not None:
        return _PACKED.get(packed, OCTETS)
    return found or otherwise


def decode_text(content: bytes) -> str | None:
    """The content as text; None when it is none: no UTF-8, or with NUL characters."""
    if b"\0" in content:
        return None
    try:
        return content.decode()
    except UnicodeDecodeError:
        return None
