"""Values as a person reads them in a table: how long ago, how much. Pure; the clock is passed in."""

from __future__ import annotations

import re
from datetime import datetime

TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
UNITS = ((86_400, "d"), (3600, "h"), (60, "min"), (1, "s"))


def readable(value: object, now: datetime) -> str:
    """A time of the service as its distance from now; anything else as it is; nothing for None."""
    text = "" if value is None else str(value)
    return distance(datetime.fromisoformat(text), now) if TIME.fullmatch(text) else text


def distance(moment: datetime, now: datetime) -> str:
    """`in 15 min`, `3 h ago`; the largest unit of which there are two at least, that no figure is far off."""
    seconds = round((moment - now).total_seconds())
    size, unit = next((row for row in UNITS if abs(seconds) >= 2 * row[0]), UNITS[-1])
    amount = f"{round(abs(seconds) / size)} {unit}"
    return f"in {amount}" if seconds > 0 else f"{amount} ago"


def megabytes(count: int) -> str:
    """Bytes as megabytes of 2^20, as the settings count memory and disk."""
    return f"{count / 2**20:,.0f} MB"
