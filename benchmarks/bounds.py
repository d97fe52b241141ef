"""The bounds that figures are held to: each figure is printed with its own, and a run that misses one fails."""

from __future__ import annotations

MISSED: list[str] = []
"""What this run has missed, to be said at its end."""


def at_most(what: str, value: float, most: float) -> str:
    """How a figure is printed with the most that it may be; it is noted when it is more."""
    return _say(what, value, f"at most {most:g}", missed=value > most)


def at_least(what: str, value: float, least: float) -> str:
    """The same with the least."""
    return _say(what, value, f"at least {least:g}", missed=value < least)


def _say(what: str, value: float, bound: str, *, missed: bool) -> str:
    digits = 3 if value < 1 else 2 if value < 10 else 0
    said = f"{what} {value:.{digits}f} ({bound}{', missed' if missed else ''})"
    if missed:
        MISSED.append(said)
    return said
