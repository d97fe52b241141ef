"""The service's settings as flags of a command, and how its errors become a message and an exit status."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import click

from kernel_gateway.errors import GatewayError
from kernel_gateway.setting import Setting
from kernel_gateway.settings import load, table
from kernels.errors import KernelsError
from sandcell import exits
from sandcell.cli.screen import say


def configured(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the service's settings, with a flag for each that is no secret."""

    @functools.wraps(command)
    def with_settings(*, config: str | None, **kwargs: Any) -> None:
        flags = {row.name: kwargs.pop(row.name) for row in _shown()}
        try:
            command(load(flags, config=config), **kwargs)
        except (GatewayError, KernelsError) as error:
            say(f"sandcell: {error}")
            raise click.exceptions.Exit(exits.REFUSED) from error

    decorated: Callable[..., None] = with_settings
    for row in reversed(_shown()):
        decorated = _flag(row)(decorated)
    return click.option("--config", metavar="FILE", help="TOML file of settings.  [env: SANDCELL_CONFIG]")(decorated)


def _shown() -> list[Setting]:
    return [row for row in table() if not row.secret]


def _flag(row: Setting) -> Callable[[Callable[..., None]], Callable[..., None]]:
    default = f"{row.default:g}" if isinstance(row.default, float) else row.default
    help_text = f"{row.help}.  [env: {row.variable}; default: {default if default != '' else 'none'}]"
    if row.type is bool:
        return click.option(f"{row.flag}/--no-{row.flag[2:]}", row.name, default=None, help=help_text)
    return click.option(row.flag, row.name, default=None, metavar=(row.unit or KINDS[row.type]).upper(), help=help_text)


KINDS = {str: "text", int: "number", float: "number"}
