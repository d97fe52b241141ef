"""`sandcell lease`: have a session to oneself for a while."""

from __future__ import annotations

import click

from sandcell import Client
from sandcell.cli import completion
from sandcell.cli.durations import Duration
from sandcell.cli.options import as_json, connected
from sandcell.cli.screen import say, show_json
from sandcell.cli.sessions import choosing
from sandcell.models.leases import LONGEST_LEASE_SECONDS, Lease


@click.command("lease")
@click.argument("session_id", metavar="[SESSION]", required=False, shell_complete=completion.sessions)
@click.option(
    "--for",
    "seconds",
    type=Duration(1, LONGEST_LEASE_SECONDS),
    default="10m",
    show_default=True,
    help="How long, 1s to 1h.",
)
@click.option("--name", default="", help="Who holds it.")
@click.option("--renew", metavar="ID", help="Keep the lease with this id for longer.")
@click.option("--show", is_flag=True, help="Say who holds the session instead.")
@click.option("--release", is_flag=True, help="End the lease instead.")
@as_json
@connected
def lease(
    client: Client,
    *,
    session_id: str | None,
    seconds: int,
    name: str,
    renew: str | None,
    show: bool,
    release: bool,
    as_json: bool,
) -> None:
    """Have SESSION (by default the current one) to yourself for a while.

    Cells of attached Jupyter clients run; what agents want to run waits, or is refused if they asked for that. It runs
    out by itself.
    """
    session_id = choosing.find(client, session_id)
    if release:
        client.give_back_lease(session_id)
        say(f"no caller holds session {session_id} now")
        return
    held: Lease
    if show:
        held = client.get_lease(session_id)
    else:
        held = client.take_lease(session_id, seconds=seconds, name=name, lease=renew)
    if as_json:
        show_json(held)
        return
    if held.id is not None:
        click.echo(held.id)
    say(f"{held.holder} holds session {session_id} until {held.expires_at}")
