"""`sandcell token ...`, for administrators."""

from __future__ import annotations

import click

from kernel_gateway.cli.options import as_json, connected
from kernel_gateway.cli.screen import say, show_json, show_table
from kernel_gateway.client import Client
from kernel_gateway.client import administration_operations as a
from kernel_gateway.client.paging import every


@click.group()
def token() -> None:
    """Create, list and revoke tokens (administrators only)."""


@token.command("create")
@click.argument("principal")
@click.option("--name", default="", help="What it is for.")
@as_json
@connected
def create(client: Client, *, principal: str, name: str, as_json: bool) -> None:
    """Create a token for PRINCIPAL, who is created when new. It is shown this once."""
    created = client.create_token(principal, name)
    if as_json:
        show_json(created)
        return
    click.echo(created.token)
    say(f"token {created.id} of {created.principal}; it is not shown again")


@token.command("ls")
@as_json
@connected
def list_(client: Client, *, as_json: bool) -> None:
    """List tokens, without their secrets."""
    tokens = client.carry_out(every(lambda cursor: a.list_tokens(cursor=cursor)))
    if as_json:
        show_json(tokens)
        return
    rows = [(each.id, each.principal, each.name, each.created_at, each.revoked_at or "") for each in tokens]
    show_table(("TOKEN", "PRINCIPAL", "NAME", "CREATED", "REVOKED"), rows)


@token.command("revoke")
@click.argument("token_id", metavar="TOKEN")
@connected
def revoke(client: Client, *, token_id: str) -> None:
    """Revoke a token by its id; it counts no longer."""
    client.revoke_token(token_id)
    say(f"revoked {token_id}")
