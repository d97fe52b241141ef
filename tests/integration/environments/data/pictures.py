"""Plots, looked at as pictures."""

from __future__ import annotations

import io

import png


def assert_drawn(picture: bytes) -> None:
    """White, the colour of the line, and black text."""
    _, _, rows, info = png.Reader(file=io.BytesIO(picture)).asRGBA8()
    seen = {bytes(row[at : at + 3]) for row in rows for at in range(0, len(row), info["planes"])}
    assert bytes((255, 255, 255)) in seen
    assert bytes((31, 119, 180)) in seen
    assert min(sum(colour) for colour in seen) < 60
