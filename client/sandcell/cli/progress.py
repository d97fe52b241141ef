"""How far a transfer is, on one line of a terminal that is written over. Elsewhere it is not shown."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Iterator
from typing import Final

from sandcell.cli.terminal_text import clean_line
from sandcell.steps import Progress

EVERY_SECONDS: Final = 0.1
QUIET_SECONDS: Final = 0.5
"""What takes less needs no line."""
WIDTH: Final = 24


@contextlib.contextmanager
def following_bytes(name: str) -> Iterator[Progress | None]:
    """What a transfer is to call with the bytes that have gone over; nothing where no terminal shows them."""
    if not sys.stderr.isatty():
        yield None
        return
    started = time.monotonic()
    shown = started + QUIET_SECONDS - EVERY_SECONDS

    def note(done: int, size: int | None) -> None:
        nonlocal shown
        now = time.monotonic()
        if now - shown >= EVERY_SECONDS:
            shown = now
            sys.stderr.write("\r\x1b[K" + clean_line(describe_transfer(name, done, size, now - started)))
            sys.stderr.flush()

    try:
        yield note
    finally:
        sys.stderr.write("\r\x1b[K")
        sys.stderr.flush()


def describe_transfer(name: str, done: int, size: int | None, seconds: float) -> str:
    """One line: a bar where the size is known, how much, how fast, how long still."""
    rate = done / seconds if seconds > 0 else 0.0
    moved = f"{done / 1e6:,.1f}"
    if not size:
        return f"{name}  {moved} MB  {rate / 1e6:,.1f} MB/s"
    full = round(WIDTH * min(done / size, 1))
    left = f"  {(size - done) / rate:,.0f} s left" if rate and done < size else ""
    return (
        f"{name}  [{'#' * full}{'.' * (WIDTH - full)}]  {moved} of {size / 1e6:,.1f} MB  {rate / 1e6:,.1f} MB/s{left}"
    )
