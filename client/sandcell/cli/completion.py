"""`sandcell completion`, and the names that it completes: asked of the service, and none when it does not answer."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import click
from click.shell_completion import BashComplete, CompletionItem, FishComplete, ZshComplete

from sandcell import SandcellError

if TYPE_CHECKING:
    from sandcell import Client

VARIABLE: Final = "_SANDCELL_COMPLETE"
MOST_NAMES: Final = 100
SHELLS: Final = {"bash": BashComplete, "zsh": ZshComplete, "fish": FishComplete}


@click.command("completion")
@click.argument("shell", type=click.Choice([*SHELLS]))
def completion(*, shell: str) -> None:
    """Print what makes the shell complete verbs, options and names of sessions, workspaces and environments.

    \b
      bash  eval "$(sandcell completion bash)"            in ~/.bashrc
      zsh   eval "$(sandcell completion zsh)"             in ~/.zshrc, after compinit
      fish  sandcell completion fish | source             in ~/.config/fish/config.fish
    """
    command = click.get_current_context().find_root().command
    click.echo(SHELLS[shell](command, {}, "sandcell", VARIABLE).source())


def sessions(ctx: click.Context, _parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Called by click to complete the id of a live session."""

    def names(client: Client) -> list[tuple[str, str]]:
        found = client.list_sessions(status="READY", limit=MOST_NAMES).items
        return [(each.id, f"{each.environment} {each.name}".strip()) for each in found]

    return _complete(ctx, incomplete, names)


def workspaces(ctx: click.Context, _parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Called by click to complete the id of a workspace."""

    def names(client: Client) -> list[tuple[str, str]]:
        return [(each.id, each.created_at) for each in client.list_workspaces(limit=MOST_NAMES).items]

    return _complete(ctx, incomplete, names)


def environments(ctx: click.Context, _parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Called by click to complete the name of an environment."""

    def names(client: Client) -> list[tuple[str, str]]:
        return [(each.name, each.description) for each in client.list_environments(limit=MOST_NAMES).items]

    return _complete(ctx, incomplete, names)


def _complete(
    ctx: click.Context, incomplete: str, names: Callable[[Client], list[tuple[str, str]]]
) -> list[CompletionItem]:
    """The names that begin with what is typed; none after an error, whose message would end up in that line."""
    from sandcell import Client  # noqa: PLC0415 - it takes httpx, and verbs of the host need no client

    url, token = (ctx.params.get(name) or ctx.meta.get(f"sandcell.{name}") for name in ("url", "token"))
    try:
        with Client(url, token) as client:
            found = names(client)
    except SandcellError:
        return []
    return [CompletionItem(name, help=about) for name, about in found if name.startswith(incomplete)]
