"""`sandcell keys ...`, for administrators: access keys, which clients of AWS sign their requests with."""

from __future__ import annotations

import click

from sandcell import Client
from sandcell.cli.durations import COLUMNS, columns_of, credential_options
from sandcell.cli.options import as_json, connected
from sandcell.cli.screen import say, show_json, show_table
from sandcell.cli.verbs import Verbs
from sandcell.models.credentials import Scope
from sandcell.operations import administration as a
from sandcell.paging import collect_pages


@click.group(cls=Verbs, path="keys")
def keys() -> None:
    """Create, list and revoke access keys, for clients that sign requests (administrators only)."""


@keys.command("create")
@click.argument("principal")
@credential_options
@as_json
@connected
def create(
    client: Client, *, principal: str, name: str, scope: Scope | None, ttl_seconds: int | None, as_json: bool
) -> None:
    """Create an access key for PRINCIPAL, who is created when new. The secret is shown this once.

    What is printed are the variables that AWS's tools read, one a line.
    """
    created = client.create_key(principal, name, scope=scope, ttl_seconds=ttl_seconds)
    if as_json:
        show_json(created)
        return
    click.echo(f"AWS_ACCESS_KEY_ID={created.id}")
    click.echo(f"AWS_SECRET_ACCESS_KEY={created.secret_access_key}")
    say(f"access key of {created.principal}; the secret is not shown again")


@keys.command("ls")
@as_json
@connected
def list_(client: Client, *, as_json: bool) -> None:
    """List access keys, without their secrets."""
    found = client.carry_out(collect_pages(lambda cursor: a.list_keys(cursor=cursor)))
    if as_json:
        show_json(found)
        return
    show_table(("KEY", *COLUMNS), [columns_of(each) for each in found])


@keys.command("revoke")
@click.argument("key_id", metavar="KEY")
@connected
def revoke(client: Client, *, key_id: str) -> None:
    """Revoke an access key by its id; it counts no longer."""
    client.revoke_key(key_id)
    say(f"revoked {key_id}")
