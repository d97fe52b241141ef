"""`sandcell checkpoint`: keep sessions as they are, for forks and `sandcell session undo`."""

from __future__ import annotations

from collections.abc import Callable

import click

from sandcell import Client
from sandcell.cli import completion
from sandcell.cli.options import as_json, connected
from sandcell.cli.screen import say, show_json, show_table
from sandcell.cli.sessions import choosing
from sandcell.models.model import Page
from sandcell.models.sessions import Checkpoint
from sandcell.operations import checkpoints as operations
from sandcell.paging import collect_pages
from sandcell.steps import Operation

COLUMNS = ("CHECKPOINT", "CREATED", "BY", "EXECUTIONS", "VARIABLES", "FILES")


@click.group()
def checkpoint() -> None:
    """Keep, list and remove checkpoints of sessions."""


@checkpoint.command("new")
@click.argument("session_id", required=False, metavar="[SESSION]", shell_complete=completion.sessions)
@as_json
@connected
def new(client: Client, *, session_id: str | None, as_json: bool) -> None:
    """Keep a session (default: the current one) as it is, and print the checkpoint's id; says what is not kept."""
    kept = client.create_checkpoint(choosing.find(client, session_id))
    if as_json:
        show_json(kept)
        return
    click.echo(kept.id)
    for each in kept.variables:
        if each.outcome == "lost":
            say(f"not kept: {each.name}: {each.why}")
    for lost in kept.lost:
        say(f"not kept: {lost}")


@checkpoint.command("ls")
@click.argument("session_id", required=False, metavar="[SESSION]", shell_complete=completion.sessions)
@as_json
@connected
def list_(client: Client, *, session_id: str | None, as_json: bool) -> None:
    """List the checkpoints of a session (default: the current one), oldest first."""
    found = client.carry_out(collect_pages(_list_of(choosing.find(client, session_id))))
    if as_json:
        show_json(found)
        return
    show_table(COLUMNS, [_row(each) for each in found])


def _list_of(session_id: str) -> Callable[[str | None], Operation[Page[Checkpoint]]]:
    return lambda cursor: operations.list_checkpoints(session_id, cursor=cursor)


def _row(each: Checkpoint) -> tuple[object, ...]:
    by = "itself" if each.automatic else "request"
    files = f"{each.files:,} of {each.file_bytes:,} bytes"
    return (each.id, each.created_at, by, each.executions, f"{each.size_bytes:,} bytes", files)


@checkpoint.command("rm")
@click.argument("checkpoint_id", metavar="CHECKPOINT")
@click.option("--session", "session_id", metavar="SESSION", help="Whose it is.  [default: the current session]")
@connected
def remove(client: Client, *, checkpoint_id: str, session_id: str | None) -> None:
    """Remove a checkpoint."""
    client.delete_checkpoint(choosing.find(client, session_id), checkpoint_id)
    say(f"removed {checkpoint_id}")
