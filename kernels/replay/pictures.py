"""PNG images as a reader sees them: only faint differences, in specks of few pixels, are those of a renderer. Pure.

A PNG of some kilobytes may inflate to gigabytes: what it holds is counted against what its header says before anything
decodes it, and the header against the budget.
"""

# mypy: allow-untyped-calls

from __future__ import annotations

import base64
import binascii
import zlib
from collections.abc import Iterable, Iterator
from typing import Final

import msgspec
import png

from kernels.replay.budget import Budget

_SIGNATURE: Final = b"\x89PNG\r\n\x1a\n"
_ROUNDING: Final = 1 / 255
"""A channel that differs by no more, of its whole range, is the same."""
_FAINT: Final = 16 / 255
"""By how much a pixel of a speck may differ: what anti-aliasing does to an edge."""
_SPECK: Final = 4
"""Pixels of the largest speck, a group of neighbours that differ: less than a point, a letter or a hair line."""
_SHARE: Final = 1 / 1_000
"""The share of all pixels that may be in specks."""


class _Scan(msgspec.Struct, frozen=True):
    """A PNG's header, what else decides on its pixels, and the scan lines as they are filtered."""

    width: int
    height: int
    settings: bytes
    lines: bytes


def why_images_differ(recorded: str, replayed: str, budget: Budget, what: str) -> str:
    """What differs between two images in base64, in a few words; empty when they show the same."""
    one, other = _decode(recorded), _decode(replayed)
    if one == other:
        return ""
    sizes = [_size(data) for data in (one, other)]
    if sizes[0] is None or sizes[1] is None:
        return "its bytes differ"
    if sizes[0] != sizes[1]:
        return f"it is {_write_size(sizes[1])} pixels large instead of {_write_size(sizes[0])}"
    width, height = sizes[0]
    if not budget.take_pixels(2 * width * height, what):
        return "its bytes differ"
    scans = [_scan(data, width, height) for data in (one, other)]
    if scans[0] is None or scans[1] is None:
        return "its bytes differ, and it is no whole PNG"
    return "" if scans[0] == scans[1] else _by_pixels(one, other, width * height)


def _by_pixels(one: bytes, other: bytes, pixels: int) -> str:
    try:
        (first, depth), (second, their_depth) = _rows(one), _rows(other)
        if depth != their_depth:
            return "its depth of colour differs"
        return _describe_seen(first, second, (1 << depth) - 1, int(pixels * _SHARE))
    except Exception:  # whatever a decoder makes of hostile bytes
        return "its bytes differ, and it cannot be decoded"


def _describe_seen(first: Iterable[bytes], second: Iterable[bytes], white: int, most: int) -> str:
    """What a reader would see of the difference; looking ends where there is something."""
    count = 0
    above: dict[int, list[int]] = {}
    for mine, theirs in zip(first, second, strict=True):
        here: dict[int, list[int]] = {}
        if mine != theirs:
            for x, by in sorted(_changes(mine, theirs).items()):
                if by > _FAINT * white:
                    return "a part of it differs visibly"
                if by > _ROUNDING * white:
                    count += 1
                    if _grow(x, here, above) > _SPECK:
                        return f"more than {_SPECK} pixels next to each other differ"
        above = here
        if count > most:
            return f"more than {most:,} pixels differ"
    return ""


def _changes(mine: bytes, theirs: bytes) -> dict[int, int]:
    """Of each pixel of a row that differs, by how much at most in a channel."""
    found: dict[int, int] = {}
    for index, (a, b) in enumerate(zip(mine, theirs, strict=True)):
        if a != b:
            found[index // 4] = max(found.get(index // 4, 0), abs(a - b))
    return found


def _grow(x: int, here: dict[int, list[int]], above: dict[int, list[int]]) -> int:
    """Join a pixel with the specks that it touches, in its row and the one above; says how large the speck is."""
    speck = [1]
    for row, places in ((here, (x - 1,)), (above, (x - 1, x, x + 1))):
        for place in places:
            touched = row.get(place)
            if touched is not None and touched is not speck:
                speck[0] += touched[0]
                for each in (here, above):
                    each.update({at: speck for at, found in each.items() if found is touched})
    here[x] = speck
    return speck[0]


def _rows(data: bytes) -> tuple[Iterator[bytes], int]:
    """Rows of red, green, blue and alpha, and how many bits each has."""
    _, _, rows, about = png.Reader(bytes=data).asRGBA()
    return iter(rows), about["bitdepth"]


def _decode(text: str) -> bytes:
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


def _write_size(size: tuple[int, int]) -> str:
    return f"{size[0]:,} x {size[1]:,}"
