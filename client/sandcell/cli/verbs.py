"""Groups of the command whose verbs are imported when they are called for; other distributions add some.

A distribution adds a verb by an entry point of the group `sandcell.commands`: its name is the verb (`serve`), or group
and verb (`environments.build`); its value is a click command. The service's distribution, `sandcell-server`, does so.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Mapping
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any, Final

import click

from sandcell import exits

ACCESS: Final[Mapping[str, Mapping[str, Any]]] = {
    "--url": {"metavar": "URL", "help": "The service.  [env: SANDCELL_URL; default: what `serve` saved]"},
    "--token": {"metavar": "TOKEN", "help": "Bearer token.  [env: SANDCELL_TOKEN; default: what `serve` saved]"},
}
"""What says which service a verb talks to; each verb takes it, and each group for its verbs."""
GROUP: Final = "sandcell.commands"
SERVICE: Final = "kernel_gateway"
"""The service's package, which shares its name with that of jupyter-kernel-gateway."""
OF_THE_SERVICE: Final = ("serve", "doctor", "kernelspec")
NOT_INSTALLED: Final = (
    "the service is not installed here, only its client: install sandcell-server on the host that is to run it"
)
IN_THE_WAY: Final = (
    "the package kernel_gateway that is installed here ({}) is that of jupyter-kernel-gateway, and the service's has "
    "the same name: uninstall jupyter-kernel-gateway and install sandcell-server again, or give each an environment of "
    "its own (python -m venv)"
)


def _keep(ctx: click.Context, parameter: click.Parameter, value: str | None) -> None:
    """Called by click with a group's option: its verbs find it in the `meta` that all contexts of one call share."""
    if value is not None:
        ctx.meta[f"sandcell.{parameter.name}"] = value


class Verbs(click.Group):
    """A group of commands: those that were added to it, those named in `lazy`, and those of other distributions.

    `lazy` says of each verb where it is, as `module:name`. `path` is the group's own name, empty for the outermost.
    Each group takes `--url` and `--token` for its verbs, unless it takes them for itself.
    """

    def __init__(self, *args: Any, path: str = "", lazy: Mapping[str, str] | None = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        known = {each.name for each in self.params}
        for flag, about in ACCESS.items():
            if flag.removeprefix("--") not in known:  # in help once, at the top
                self.params.append(click.Option([flag], expose_value=False, callback=_keep, hidden=bool(path), **about))
        self._path = path
        self._lazy = dict(lazy or {})

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Called by click for help and completion: names in the order in which they are shown."""
        return [*self._lazy, *self.commands, *self._find_added()]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Called by click when a verb is to run, and for each in the group's help."""
        return self.commands.get(cmd_name) or self._find(cmd_name)

    def _find(self, name: str) -> click.Command | None:
        if name in self._lazy:
            module, _, attribute = self._lazy[name].partition(":")
            command: click.Command = getattr(importlib.import_module(module), attribute)
            return command
        added = self._find_added().get(name)
        if added is not None:
            return _load(name, added)
        return _refuse(name, NOT_INSTALLED) if not self._path and name in OF_THE_SERVICE else None

    def _find_added(self) -> dict[str, EntryPoint]:
        """What other distributions add to this group, by the verb's name."""
        start = f"{self._path}." if self._path else ""
        found = {each.name.removeprefix(start): each for each in _entries() if each.name.startswith(start)}
        return {name: each for name, each in sorted(found.items()) if "." not in name}


@cache
def _entries() -> tuple[EntryPoint, ...]:
    """All of them, found by reading what is installed, which takes a moment."""
    return tuple(entry_points(group=GROUP))


def _load(name: str, entry: EntryPoint) -> click.Command:
    """The verb; or, where it cannot be imported, one of its name that says why."""
    if entry.module.partition(".")[0] == SERVICE and (place := find_namesake()):
        return _refuse(name, IN_THE_WAY.format(place))
    try:
        command: click.Command = entry.load()
    except (ImportError, AttributeError) as error:
        return _refuse(name, f"what adds this verb ({entry.value}) cannot be imported: {error}")
    return command


def find_namesake() -> Path | None:
    """Where the package of jupyter-kernel-gateway is, if it is imported in place of the service's or mixed with it."""
    found = importlib.util.find_spec(SERVICE)
    places = list(found.submodule_search_locations or []) if found is not None else []
    return next((Path(place) for place in places if Path(place, "gatewayapp.py").exists()), None)


def _refuse(name: str, why: str) -> click.Command:
    """A command that does nothing but say why it cannot."""

    def refuse() -> None:
        click.echo(f"sandcell: {why}", err=True)
        raise click.exceptions.Exit(exits.REFUSED)

    anything = {"ignore_unknown_options": True, "allow_extra_args": True}
    return click.Command(
        name,
        callback=refuse,
        help=f"Cannot be used here: {why}.",
        short_help="Cannot be used here; call it to see why.",
        context_settings=anything,
    )
