"""One row of the table of settings, as `kernel_gateway.settings` writes them down."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

PREFIX = "SANDCELL_"


@dataclass(frozen=True)
class Setting:
    """One row of the table; `low` and `high` are inclusive."""

    name: str
    type: type
    default: Any
    help: str
    low: float | None = None
    high: float | None = None
    choices: tuple[str, ...] = ()
    secret: bool = False
    lines: bool = False
    """Several texts: a list in the TOML file, else one a line."""

    @property
    def variable(self) -> str:
        return PREFIX + self.name.upper()

    @property
    def flag(self) -> str:
        return "--" + self.name.replace("_", "-")

    @property
    def unit(self) -> str:
        """The unit the name ends in, or nothing."""
        last = self.name.rsplit("_", 1)[-1]
        return {"seconds": "seconds", "bytes": "bytes", "mb": "MB", "days": "days"}.get(last, "")


def setting(
    default: Any,
    help: str,  # noqa: A002 - the word of the table, of argparse and of click
    *,
    low: float | None = None,
    high: float | None = None,
    choices: tuple[str, ...] = (),
    secret: bool = False,
    lines: bool = False,
) -> Any:
    """A field of `Settings`; a default that is called is called when the settings are made."""
    row = {"help": help, "low": low, "high": high, "choices": choices, "secret": secret, "lines": lines}
    row["default"] = default
    if callable(default):
        return dataclasses.field(default_factory=default, metadata=row)
    return dataclasses.field(default=default, metadata=row, repr=not secret)
