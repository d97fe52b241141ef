"""`sandcell token ...`, for administrators."""

from __future__ import annotations

import click

from sandcell import Client
from sandcell.cli.durations import COLUMNS, Duration, columns_of, credential_options
from sandcell.cli.options import as_json, connected
from sandcell.cli.screen import say, show_json, show_table
from sandcell.cli.verbs import Verbs
from sandcell.models.credentials import Scope
from sandcell.operations import administration as a
from sandcell.paging import collect_pages


@click.group(cls=Verbs, path="token")
def token() -> None:
    """Create, list, rotate and revoke tokens (administrators only)."""


@token.command("create")
@click.argument("principal")
@credential_options
@as_json
@connected
def create(
    client: Client, *, principal: str, name: str, scope: Scope | None, ttl_seconds: int | None, as_json: bool
) -> None:
    """Create a token for PRINCIPAL, who is created when new. It is shown this once."""
    created = client.create_token(principal, name, scope=scope, ttl_seconds=ttl_seconds)
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
    tokens = client.carry_out(collect_pages(lambda cursor: a.list_tokens(cursor=cursor)))
    if as_json:
        show_json(tokens)
        return
    show_table(("TOKEN", *COLUMNS), [columns_of(each) for each in tokens])


@token.command("rotate")
@click.argument("token_id", metavar="TOKEN")
@click.option("--overlap", type=Duration(0, 7 * 86_400), default="0s", help="How long the old one counts, 0s to 7d.")
@as_json
@connected
def rotate(client: Client, *, token_id: str, overlap: int, as_json: bool) -> None:
    """Put another token, of the same name, scope and lifetime, in place of TOKEN. It is shown this once."""
    created = client.rotate_token(token_id, overlap_seconds=overlap)
    if as_json:
        show_json(created)
        return
    click.echo(created.token)
    say(f"token {created.id} of {created.principal} in place of {token_id}; it is not shown again")


@token.command("revoke")
@click.argument("token_id", metavar="TOKEN")
@connected
def revoke(client: Client, *, token_id: str) -> None:
    """Revoke a token by its id; it counts no longer."""
    client.revoke_token(token_id)
    say(f"revoked {token_id}")
