"""One row of the table of settings, as `kernel_gateway.settings` writes it; msgspec converts and bounds its value."""

from __future__ import annotations

import dataclasses
from typing import Annotated, Any, Literal

import msgspec

from kernel_gateway.errors import SettingInvalid

PREFIX = "SANDCELL_"


class Setting(msgspec.Struct, frozen=True):
    """One row of the table; `low` and `high` are inclusive, and there are both or none."""

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

    @property
    def shape(self) -> Any:
        """The type that msgspec converts a value to, with its bounds."""
        if self.choices:
            return Literal[self.choices]
        return self.type if self.low is None else Annotated[self.type, msgspec.Meta(ge=self.low, le=self.high)]

    @property
    def words(self) -> str:
        """The same, for people."""
        if self.choices:
            return f"one of {', '.join(self.choices)}"
        if self.lines:
            return "a list of strings, or a string with one a line"
        kind = {bool: "true or false", int: "a whole number", float: "a number", str: "a string"}[self.type]
        return kind if self.low is None else f"{kind} between {self.low:,} and {self.high:,}"

    def convert(self, value: Any, source: str) -> Any:
        """The value in the setting's type and bounds, from text too; `source` says where it stands.

        Raises SettingInvalid, without the value of a secret.
        """
        given = value
        if self.lines and isinstance(given, list) and all(isinstance(each, str) for each in given):
            given = "\n".join(given)
        if isinstance(given, str) and self.type is not str:
            given = given.strip()
            if self.type is bool:  # msgspec knows true, false, 1 and 0
                given = {"yes": True, "no": False}.get(given.lower(), given)
        try:
            return msgspec.convert(given, self.shape, strict=False)
        except msgspec.ValidationError:
            shown = "" if self.secret else f", not {value!r}"
            raise SettingInvalid(f"{self.name} {source} must be {self.words}{shown}") from None


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
