"""Times as people type them, and the options of credentials that take one."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final

import click

from sandcell.models.credentials import SCOPES

UNITS: Final = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}
LONGEST_TTL_SECONDS: Final = 3_660 * 86_400


class Duration(click.ParamType[int]):
    """`90`, `90s`, `15m`, `1h` or `7d`, as seconds within bounds."""

    name = "duration"

    def __init__(self, shortest: int, longest: int) -> None:
        self._shortest = shortest
        self._longest = longest

    def convert(self, value: str | int, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Called by click with what was typed."""
        match = re.fullmatch(r"([0-9]{1,9})([smhd]?)", str(value))
        seconds = int(match[1]) * UNITS[match[2] or "s"] if match else -1
        if not self._shortest <= seconds <= self._longest:
            least, most = format_duration(self._shortest), format_duration(self._longest)
            self.fail(f"{value!r} is not a time from {least} to {most}, such as 15m or 1h", param, ctx)
        return seconds


def format_duration(seconds: int) -> str:
    """A time in the largest unit that it is a whole number of."""
    unit = next(each for each in "dhms" if seconds % UNITS[each] == 0 and (seconds or each == "s"))
    return f"{seconds // UNITS[unit]}{unit}"


def credential_options(command: Callable[..., None]) -> Callable[..., None]:
    """`--name`, `--scope` and `--ttl` of a new token or access key."""
    ttl = Duration(1, LONGEST_TTL_SECONDS)
    for option in (
        click.option("--ttl", "ttl_seconds", type=ttl, help="How long it counts, as 12h or 90d.  [default: no end]"),
        click.option(
            "--scope", type=click.Choice((*SCOPES, "metrics")), help="What it is good for.  [default: all it may]"
        ),
        click.option("--name", default="", help="What it is for."),
    ):
        command = option(command)
    return command


def columns_of(credential: Any) -> tuple[str, ...]:
    """What lists of tokens and of access keys show of each."""
    return (
        credential.id,
        credential.principal,
        credential.name,
        credential.scope,
        credential.created_at,
        credential.expires_at or "",
        credential.last_used_at or "",
        credential.revoked_at or "",
    )


COLUMNS: Final = ("PRINCIPAL", "NAME", "SCOPE", "CREATED", "EXPIRES", "LAST USED", "REVOKED")
