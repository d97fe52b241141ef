"""`sandcell attach-token`: tokens that let a person's Jupyter client attach to one session."""

from __future__ import annotations

from collections.abc import Sequence

import click

from sandcell import Client
from sandcell.cli import completion
from sandcell.cli.durations import Duration
from sandcell.cli.options import as_json, connected
from sandcell.cli.screen import say, show_json, show_table
from sandcell.cli.sessions import choosing
from sandcell.models.attach import LONGEST_SECONDS, SHORTEST_SECONDS, Right
from sandcell.operations import attach as at
from sandcell.paging import collect_pages

LIFETIME = Duration(SHORTEST_SECONDS, LONGEST_SECONDS)


@click.command("attach-token")
@click.argument("session_id", metavar="[SESSION]", required=False, shell_complete=completion.sessions)
@click.option("--ttl", type=LIFETIME, default="1h", show_default=True, help="How long it counts, 1m to 7d.")
@click.option("--can", type=click.Choice(["restart"]), multiple=True, help="What else it allows.")
@click.option("--name", default="", help="Who will use it: the author of the cells that are run with it.")
@click.option("--list", "listing", is_flag=True, help="List the session's tokens instead.")
@click.option("--revoke", metavar="ID", help="Revoke this one instead.")
@as_json
@connected
def attach_token(
    client: Client,
    *,
    session_id: str | None,
    ttl: int,
    can: Sequence[Right],
    name: str,
    listing: bool,
    revoke: str | None,
    as_json: bool,
) -> None:
    """Create a token that lets a person's Jupyter client attach to SESSION (by default the current one).

    It reaches that session alone: to see, run and interrupt. It ends no kernel. It is shown this once.
    """
    session_id = choosing.find(client, session_id)
    if listing:
        _list(client, session_id, as_json=as_json)
    elif revoke is not None:
        client.revoke_attach_token(session_id, revoke)
        say(f"revoked {revoke}")
    else:
        made = client.create_attach_token(session_id, name=name, ttl_seconds=ttl, can=can)
        if as_json:
            show_json(made)
            return
        click.echo(made.token)
        say(f"attach token {made.id} of session {session_id}, until {made.expires_at}; it is not shown again")


def _list(client: Client, session_id: str, *, as_json: bool) -> None:
    tokens = client.carry_out(collect_pages(lambda cursor: at.list_attach_tokens(session_id, cursor=cursor)))
    if as_json:
        show_json(tokens)
        return
    rows = [
        (each.id, each.name, " ".join(each.can), each.created_at, each.expires_at, each.revoked_at or "")
        for each in tokens
    ]
    show_table(("TOKEN", "NAME", "CAN", "CREATED", "EXPIRES", "REVOKED"), rows)
