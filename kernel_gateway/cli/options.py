"""The service's settings as flags of a command, and how its errors become a message and an exit status."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import click

from kernel_gateway.errors import GatewayError
from kernel_gateway.setting import Setting
from kernel_gateway.settings import load, table
from kernels.errors import KernelsError
from sandcell import exits
from sandcell.cli.screen import say

NAMED = ("data_dir", "environments_dir", "run_dir", "runtime", "store", "port")
"""Settings that the help of other verbs than `serve` shows; they take all."""


def configured(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the service's settings, with a flag for each that is no secret."""
    return _with_settings(command, _flag_settings())


def configured_briefly(command: Callable[..., None]) -> Callable[..., None]:
    """As `configured`; help shows only a few of the flags."""
    return _with_settings(command, [row for row in _flag_settings() if row.name in NAMED])


def _with_settings(command: Callable[..., None], in_help: Sequence[Setting]) -> Callable[..., None]:
    @functools.wraps(command)
    def with_settings(*, config: str | None, **kwargs: Any) -> None:
        flags = {row.name: kwargs.pop(row.name) for row in _flag_settings()}
        try:
            command(load(flags, config=config), **kwargs)
        except (GatewayError, KernelsError) as error:
            say(f"sandcell: {error}")
            raise click.exceptions.Exit(exits.REFUSED) from error

    decorated: Callable[..., None] = with_settings
    for row in reversed(_flag_settings()):
        decorated = _flag(row, hidden=row not in in_help)(decorated)
    rest = "" if len(in_help) == len(_flag_settings()) else " All settings of `serve` are flags here too."
    help_text = f"TOML file of settings.{rest}  [env: SANDCELL_CONFIG]"
    return click.option("--config", metavar="FILE", help=help_text)(decorated)


@functools.cache
def _flag_settings() -> tuple[Setting, ...]:
    return tuple(row for row in table() if not row.secret)


def _flag(row: Setting, *, hidden: bool) -> Callable[[Callable[..., None]], Callable[..., None]]:
    default = f"{row.default:g}" if isinstance(row.default, float) else row.default
    help_text = f"{row.help}.  [env: {row.variable}; default: {default if default != '' else 'none'}]"
    if row.type is bool:
        return click.option(f"{row.flag}/--no-{row.flag[2:]}", row.name, default=None, help=help_text, hidden=hidden)
    metavar = (row.unit or KINDS[row.type]).upper()
    return click.option(row.flag, row.name, default=None, metavar=metavar, help=help_text, hidden=hidden)


KINDS = {str: "text", int: "number", float: "number"}
