"""`sandcell workspace ...`: the files that outlive sessions."""

from __future__ import annotations

import sys
from pathlib import Path, PurePosixPath

import click

from sandcell import Client
from sandcell.cli import completion
from sandcell.cli.options import as_json, choose_upload, connected
from sandcell.cli.progress import following_bytes
from sandcell.cli.screen import say, show_json, show_table
from sandcell.cli.verbs import Verbs
from sandcell.cli.workspaces import durable_files, usage
from sandcell.operations import workspaces as operations
from sandcell.paging import collect_pages


@click.group(cls=Verbs, path="workspace", short_help="List, fetch and store files that outlive sessions.")
def workspace() -> None:
    """List, fetch, store, copy and remove the files that outlive sessions."""


@workspace.command("ls")
@click.argument("workspace_id", required=False, metavar="[WORKSPACE]", shell_complete=completion.workspaces)
@click.argument("path", default="")
@as_json
@connected
def list_(client: Client, *, workspace_id: str | None, path: str, as_json: bool) -> None:
    """List your workspaces, or the files of one."""
    if workspace_id is not None:
        files = client.workspace_files(workspace_id, path)
        if as_json:
            show_json(files)
        else:
            show_table(("PATH", "SIZE", "MODIFIED"), [(each.path, each.size, each.modified_at) for each in files])
        return
    workspaces = client.carry_out(collect_pages(lambda cursor: operations.list_workspaces(cursor=cursor)))
    if as_json:
        show_json(workspaces)
        return
    show_table(("WORKSPACE", "CREATED"), [(each.id, each.created_at) for each in workspaces])


@workspace.command("get")
@click.argument("workspace_id", metavar="WORKSPACE", shell_complete=completion.workspaces)
@click.argument("path")
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    help="Where to, - for stdout.  [default: the file's name, here]",
)
@connected
def get(client: Client, *, workspace_id: str, path: str, output: Path | None) -> None:
    """Fetch a file."""
    if output == Path("-"):
        sys.stdout.buffer.write(client.workspace_download(workspace_id, path))
        return
    name = PurePosixPath(path).name
    destination = output / name if output is not None and output.is_dir() else output or Path(name)
    with following_bytes(path) as note:
        client.workspace_download_to(workspace_id, path, destination, on_progress=note)
    say(f"wrote {destination}")


@workspace.command("put")
@click.argument("workspace_id", metavar="WORKSPACE", shell_complete=completion.workspaces)
@click.argument("file", type=click.Path(exists=True, dir_okay=False, allow_dash=True, path_type=Path))
@click.argument("path", required=False)
@connected
def put(client: Client, *, workspace_id: str, file: Path, path: str | None) -> None:
    """Store FILE (- for stdin) as PATH (default: its name). Refused while a session uses the workspace."""
    content, name = choose_upload(file, path)
    with following_bytes(name) as note:
        entry = client.workspace_upload(workspace_id, name, content, on_progress=note)
    say(f"stored {entry.path} ({entry.size:,} bytes)")


@workspace.command("rm")
@click.argument("workspace_id", metavar="WORKSPACE", shell_complete=completion.workspaces)
@click.argument("path")
@click.option("-r", "--recursive", is_flag=True, help="A directory and everything below.")
@click.option("--dry-run", is_flag=True, help="Only say what would go.")
@connected
def remove(client: Client, *, workspace_id: str, path: str, recursive: bool, dry_run: bool) -> None:
    """Remove a file."""
    if dry_run:
        durable_files.say_removed(client.workspace_would_remove(workspace_id, path, recursive=recursive))
        return
    client.workspace_remove(workspace_id, path, recursive=recursive)
    say(f"removed {path}")


for command in (
    usage.expire,
    durable_files.stat,
    durable_files.cat,
    durable_files.archive,
    durable_files.copy,
    durable_files.link,
    durable_files.delete,
):
    workspace.add_command(command)
