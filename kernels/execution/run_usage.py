"""What a run used, as its kernel says in the metadata of its reply. Pure.

It is the kernel's own word: user code runs in the same process and can make it say anything, so it is checked for its
form alone.
"""

from __future__ import annotations

from typing import Annotated, Final

import msgspec

MOST_METADATA_BYTES: Final = 16_384
"""Metadata of a reply that is looked into."""

_Count = Annotated[int, msgspec.Meta(ge=0, le=2**62)] | None


class RunUsage(msgspec.Struct, frozen=True):
    """None: the system of the sandbox does not tell.

    `cpu_seconds` and the bytes are the kernel's with those of its children that have ended; `memory_peak_bytes` is the
    kernel's resident memory at its highest, as far as a run that stays below an earlier one can tell.
    """

    cpu_seconds: float
    memory_peak_bytes: int | None
    read_bytes: int | None
    written_bytes: int | None


class _Used(msgspec.Struct):
    cpu_seconds: Annotated[float, msgspec.Meta(ge=0, le=1e9)]
    memory_peak_bytes: _Count = None
    read_bytes: _Count = None
    written_bytes: _Count = None


class _Metadata(msgspec.Struct):
    sandcell: _Used | None = None


_decode: Final = msgspec.json.Decoder(_Metadata).decode


def usage_in(metadata_json: bytes) -> RunUsage | None:
    """What the metadata of an `execute_reply` says; None when it says nothing, or nonsense."""
    if len(metadata_json) > MOST_METADATA_BYTES:
        return None
    try:
        used = _decode(metadata_json).sandcell
    except (msgspec.MsgspecError, RecursionError, UnicodeError):
        return None
    if used is None:
        return None
    return RunUsage(used.cpu_seconds, used.memory_peak_bytes, used.read_bytes, used.written_bytes)
