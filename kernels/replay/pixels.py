"""PNG images by pixels: small differences of shade, and very few of them, are what anti-aliasing does. Pure.

A PNG of some kilobytes may inflate to gigabytes: what it holds is counted against what its header says before anything
decodes it, and the header against the budget.
"""

# mypy: allow-untyped-calls

from __future__ import annotations

import base64
import binascii
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

import png

from kernels.replay.budget import Budget

_SIGNATURE: Final = b"\x89PNG\r\n\x1a\n"
_SHADE: Final = 16 / 255
"""A channel that differs by no more, of its whole range, is the same."""
_SHARE: Final = 1 / 10_000
"""The share of pixels that may differ by more: thirty of a 640 x 480 plot, less than one marker."""


@dataclass(frozen=True)
class _Scan:
    """A PNG's header, what else decides on its pixels, and the scan lines as they are filtered."""

    width: int
    height: int
    settings: bytes
    lines: bytes


def why_images_differ(recorded: str, replayed: str, budget: Budget, what: str) -> str:
    """What differs between two images in base64, in a few words; empty when they show the same."""
    one, other = _decoded(recorded), _decoded(replayed)
    if one == other:
        return ""
    sizes = [_size(data) for data in (one, other)]
    if sizes[0] is None or sizes[1] is None:
        return "its bytes differ"
    if sizes[0] != sizes[1]:
        return f"it is {_written(sizes[1])} pixels large instead of {_written(sizes[0])}"
    width, height = sizes[0]
    if not budget.take_pixels(2 * width * height, what):
        return "its bytes differ"
    scans = [_scan(data, width, height) for data in (one, other)]
    if scans[0] is None or scans[1] is None:
        return "its bytes differ, and it is no whole PNG"
    return "" if scans[0] == scans[1] else _by_pixels(one, other, width * height)


def _by_pixels(one: bytes, other: bytes, pixels: int) -> str:
    allowed = int(pixels * _SHARE)
    try:
        (first, depth), (second, their_depth) = _rows(one), _rows(other)
        if depth != their_depth:
            return "its depth of colour differs"
        differ = _count(first, second, _SHADE * ((1 << depth) - 1), allowed)
    except Exception:  # whatever a decoder makes of hostile bytes
        return "its bytes differ, and it cannot be decoded"
    return f"more than {allowed:,} of {pixels:,} pixels differ" if differ > allowed else ""


def _count(first: Iterable[bytes], second: Iterable[bytes], shade: float, allowed: int) -> int:
    """How many pixels differ visibly; counting ends when it is more than allowed."""
    count = 0
    for mine, theirs in zip(first, second, strict=True):
        if mine == theirs:
            continue
        channels = enumerate(zip(mine, theirs, strict=True))
        count += len({index // 4 for index, (a, b) in channels if a != b and abs(a - b) > shade})
        if count > allowed:
            return count
    return count


def _rows(data: bytes) -> tuple[Iterator[bytes], int]:
    """Rows of red, green, blue and alpha, and how many bits each has."""
    _, _, rows, about = png.Reader(bytes=data).asRGBA()
    return iter(rows), about["bitdepth"]


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=False)
    except (binascii.Error, ValueError):
        return text.encode("utf-8", "replace")


def _size(data: bytes) -> tuple[int, int] | None:
    if len(data) < 33 or data[:8] != _SIGNATURE or data[12:16] != b"IHDR":
        return None
    return int.from_bytes(data[16:20], "big"), int.from_bytes(data[20:24], "big")


def _scan(data: bytes, width: int, height: int) -> _Scan | None:
    """The scan lines, if there are no more of them than the header says."""
    most = (width * 8 + 8) * (height + 8) * 2  # the most that any PNG of this size holds: 16 bits of four channels
    settings, packed, at = data[16:29], [], 8
    while at + 12 <= len(data):
        length, kind = int.from_bytes(data[at : at + 4], "big"), data[at + 4 : at + 8]
        body = data[at + 8 : at + 8 + length]
        if kind == b"IDAT":
            packed.append(body)
        elif kind in (b"PLTE", b"tRNS", b"sBIT"):
            settings += kind + body
        at += 12 + length
    inflate, lines = zlib.decompressobj(), bytearray()
    try:
        lines += inflate.decompress(b"".join(packed), most)
    except zlib.error:
        return None
    return None if inflate.unconsumed_tail or not inflate.eof else _Scan(width, height, settings, bytes(lines))


def _written(size: tuple[int, int]) -> str:
    return f"{size[0]:,} x {size[1]:,}"
