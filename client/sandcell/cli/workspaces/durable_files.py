"""Verbs of `sandcell workspace` that look into, pack, move and delete what outlives sessions."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import click

from sandcell import Client
from sandcell.cli import completion
from sandcell.cli.options import as_json, connected
from sandcell.cli.progress import following_bytes
from sandcell.cli.screen import say, show_json, show_table, write
from sandcell.models.workspaces import Removed

RANGE = re.compile(r"(\d{0,18})-(\d{0,18})", re.ASCII)
SHOWN_PATHS = 20


@click.command("stat")
@click.argument("workspace_id", metavar="WORKSPACE", shell_complete=completion.workspaces)
@click.argument("path")
@as_json
@connected
def stat(client: Client, *, workspace_id: str, path: str, as_json: bool) -> None:
    """Show what is at PATH: kind, size, time, mode, SHA-256."""
    found = client.workspace_stat(workspace_id, path)
    if as_json:
        show_json(found)
        return
    rows = [("kind", found.kind), ("size", found.size), ("modified", found.modified_at), ("mode", found.mode)]
    rows += [(name, value) for name, value in (("sha256", found.sha256), ("target", found.target)) if value is not None]
    show_table(("", ""), rows)


@click.command("cat")
@click.argument("workspace_id", metavar="WORKSPACE", shell_complete=completion.workspaces)
@click.argument("path")
@click.option("--range", "range_", metavar="FIRST-LAST", help="Only these bytes: 0-99, 100- or -100 (the last 100).")
@connected
def cat(client: Client, *, workspace_id: str, path: str, range_: str | None) -> None:
    """Write a file, or some bytes of it, to stdout."""
    content = client.workspace_read(workspace_id, path, *parse_range(range_))
    if sys.stdout.isatty():
        write(content.decode("utf-8", "replace"), stream=sys.stdout)
    else:
        sys.stdout.buffer.write(content)


@click.command("archive")
@click.argument("workspace_id", metavar="WORKSPACE", shell_complete=completion.workspaces)
@click.argument("path", default="")
@click.option("-o", "--output", type=click.Path(path_type=Path, dir_okay=False), help="[default: WORKSPACE.zip]")
@connected
def archive(client: Client, *, workspace_id: str, path: str, output: Path | None) -> None:
    """Fetch all files, or those below PATH, as a zip archive. What is not in it is listed in its SKIPPED.txt."""
    destination = output or Path(f"{workspace_id}.zip")
    with following_bytes(destination.name) as note:
        client.workspace_archive_to(workspace_id, destination, path, on_progress=note)
    say(f"wrote {destination}")


@click.command("copy")
@click.argument("workspace_id", metavar="WORKSPACE", shell_complete=completion.workspaces)
@click.argument("to")
@click.argument("paths", nargs=-1)
@click.option("--to-path", default="", help="The directory there that they are put below.")
@click.option("--overwrite", is_flag=True, help="Replace what has other content there.")
@click.option("--dry-run", is_flag=True, help="Only say what would be copied.")
@as_json
@connected
def copy(
    client: Client,
    *,
    workspace_id: str,
    to: str,
    paths: tuple[str, ...],
    to_path: str,
    overwrite: bool,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Copy PATHS (default: everything) to the workspace TO, which no session may be using."""
    done = client.workspace_copy(workspace_id, to, paths, to_path=to_path, overwrite=overwrite, dry_run=dry_run)
    if as_json:
        show_json(done)
        return
    verb = "would copy" if dry_run else "copied"
    say(
        f"{verb} {done.file_count:,} files ({done.size_bytes:,} bytes), {done.overwritten:,} over others; "
        f"{done.unchanged:,} were there already"
    )


@click.command("link")
@click.argument("workspace_id", metavar="WORKSPACE", shell_complete=completion.workspaces)
@click.argument("path")
@click.option("--lifetime", type=int, metavar="SECONDS", help="How long it works.  [default: 3600]")
@as_json
@connected
def link(client: Client, *, workspace_id: str, path: str, lifetime: int | None, as_json: bool) -> None:
    """Print a link to a file straight in S3. Anyone who has it can read the file until it expires."""
    made = client.workspace_link(workspace_id, path, lifetime_seconds=lifetime)
    if as_json:
        show_json(made)
        return
    click.echo(made.url)
    say(f"works until {made.expires_at}")


@click.command("delete")
@click.argument("workspace_id", metavar="WORKSPACE", shell_complete=completion.workspaces)
@click.option("--dry-run", is_flag=True, help="Only say what would go.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@connected
def delete(client: Client, *, workspace_id: str, dry_run: bool, yes: bool) -> None:
    """Delete a workspace and all its files. Notebooks of its sessions stay."""
    if not dry_run and not yes:
        planned = client.delete_workspace(workspace_id, dry_run=True)
        click.confirm(f"Delete {planned.file_count:,} files ({planned.size_bytes:,} bytes)?", abort=True, err=True)
    say_removed(client.delete_workspace(workspace_id, dry_run=dry_run))


def say_removed(removed: Removed) -> None:
    """Say what was removed, or would be."""
    verb = "would remove" if removed.dry_run else "removed"
    say(f"{verb} {removed.file_count:,} files ({removed.size_bytes:,} bytes)")
    if removed.dry_run:
        for path in removed.paths[:SHOWN_PATHS]:
            say(f"  {path}")
        more = len(removed.paths) + removed.omitted - SHOWN_PATHS
        if more > 0:
            say(f"  and {more:,} more")
    if removed.pending:
        say("the store does not answer: it removes them when it does")


def parse_range(text: str | None) -> tuple[int | None, int | None]:
    """The first byte and the one after the last; of the last bytes alone their number."""
    if text is None:
        return None, None
    found = RANGE.fullmatch(text)
    if found is None or found[1] == found[2] == "":
        raise click.BadParameter("say it as 0-99, 100- or -100", param_hint="--range")
    if not found[1]:
        return None, int(found[2])
    return int(found[1]), int(found[2]) + 1 if found[2] else None
