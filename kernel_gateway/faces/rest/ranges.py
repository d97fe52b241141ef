"""`Range` of a request, as far as it is understood: one range of bytes (RFC 9110, section 14). Pure."""

from __future__ import annotations

import re

from kernel_gateway.faces.errors import RangeNotSatisfiable

RANGE = re.compile(r"bytes=(\d{0,18})-(\d{0,18})", re.ASCII)


def parse_range(header: str | None, size: int) -> tuple[int, int]:
    """The first byte asked for and the one after the last, of `size`; all of them when no range is asked for.

    What is no single range of bytes is ignored, as the RFC has it; a range beyond the end raises RangeNotSatisfiable.
    """
    found = RANGE.fullmatch(header.strip()) if header else None
    if found is None or found[1] == found[2] == "":
        return 0, size
    if found[1] == "":
        start, end = max(size - int(found[2]), 0), size
    else:
        start, end = int(found[1]), min(int(found[2]) + 1, size) if found[2] else size
        if found[2] and int(found[2]) < start:
            return 0, size
    if start >= size or end <= start:
        raise RangeNotSatisfiable(size)
    return start, end
