"""`sandcell usage` and `sandcell workspace expire`: what is kept in the store, and what is not used any more."""

from __future__ import annotations

import click

from sandcell import Client
from sandcell.cli.options import as_json, connected
from sandcell.cli.screen import say, show_json, show_table
from sandcell.operations import usage as u
from sandcell.paging import collect_pages


@click.command(short_help="What your workspaces hold.")
@as_json
@connected
def usage(client: Client, *, as_json: bool) -> None:
    """What your workspaces hold in the store and your live sessions now; for an administrator everybody's."""
    found = client.carry_out(collect_pages(lambda cursor: u.usage(cursor=cursor)))
    if as_json:
        show_json(found)
        return
    kept = ("WORKSPACES", "LIVE", "FILES", "BYTES", "DATASETS", "NOT COUNTED")
    columns = ("PRINCIPAL", *kept, "SESSIONS", "AT MOST", "MEMORY", "DISK", "CPU SECONDS")
    rows = [
        (
            each.principal,
            each.workspaces,
            each.live_workspaces,
            each.file_count,
            each.size_bytes,
            each.datasets,
            each.not_counted,
            each.live_sessions,
            each.live_sessions_most,
            each.memory_bytes,
            each.disk_bytes,
            f"{each.cpu_seconds:.1f}",
        )
        for each in found
    ]
    show_table(columns, rows)


@click.command("expire")
@click.option("--dry-run", is_flag=True, help="Only say which.")
@click.option("--days", type=click.IntRange(1, 36_500), help="[default: the service's workspace_retention_days]")
@as_json
@connected
def expire(client: Client, *, dry_run: bool, days: int | None, as_json: bool) -> None:
    """Remove workspaces that have not been used for so many days. Administrators only."""
    done = client.expire_workspaces(days, dry_run=dry_run)
    if as_json:
        show_json(done)
        return
    rows = [
        (each.workspace_id, each.principal, each.touched_at, each.size_bytes, each.kept or "")
        for each in done.workspaces
    ]
    show_table(("WORKSPACE", "PRINCIPAL", "LAST USED", "BYTES", "KEPT, SINCE"), rows)
    count = sum(each.kept is None for each in done.workspaces)
    verb = "would remove" if dry_run else "removed"
    say(f"{verb} {count:,} workspaces that have not been used for {done.days:,} days")
    if done.more:
        say("there are more: run it again")
