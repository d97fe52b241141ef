"""`sandcell files ...`: the files of a live session; `sandcell workspace` has those that outlive it."""

from __future__ import annotations

import sys
from pathlib import Path, PurePosixPath

import click

from sandcell import Client
from sandcell.cli.options import as_json, choose_upload, connected, session_option
from sandcell.cli.progress import following_bytes
from sandcell.cli.screen import say, show_json, show_table
from sandcell.cli.sessions import choosing
from sandcell.cli.verbs import Verbs


@click.group(cls=Verbs, path="files")
def files() -> None:
    """List, fetch, write and remove files of a live session."""


@files.command("ls")
@click.argument("path", default="")
@click.option("-r", "--recursive", is_flag=True, help="Those of its directories, too.")
@session_option
@as_json
@connected
def list_(client: Client, *, path: str, recursive: bool, session_id: str | None, as_json: bool) -> None:
    """List the files of a session, or those below PATH."""
    found = client.files(choosing.find(client, session_id), path, recursive=recursive)
    if as_json:
        show_json(found)
        return
    rows = [(each.path + ("/" if each.kind == "directory" else ""), each.size, each.modified_at) for each in found]
    show_table(("PATH", "SIZE", "MODIFIED"), rows)


@files.command("get")
@click.argument("path")
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), help="Where to, - for stdout.  [default: its name, here]"
)
@session_option
@connected
def get(client: Client, *, path: str, output: Path | None, session_id: str | None) -> None:
    """Fetch a file."""
    session_id = choosing.find(client, session_id)
    if output == Path("-"):
        sys.stdout.buffer.write(client.download(session_id, path))
        return
    name = PurePosixPath(path).name
    destination = output / name if output is not None and output.is_dir() else output or Path(name)
    with following_bytes(path) as note:
        client.download_to(session_id, path, destination, on_progress=note)
    say(f"wrote {destination}")


@files.command("put")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, allow_dash=True, path_type=Path))
@click.argument("path", required=False)
@session_option
@connected
def put(client: Client, *, file: Path, path: str | None, session_id: str | None) -> None:
    """Write FILE (- for stdin) as PATH (default: its name) into a session. Cut off, it goes on when called again."""
    content, name = choose_upload(file, path)
    with following_bytes(name) as note:
        entry = client.upload(choosing.find(client, session_id), name, content, on_progress=note)
    say(f"wrote {entry.path} ({entry.size:,} bytes)")


@files.command("rm")
@click.argument("path")
@click.option("-r", "--recursive", is_flag=True, help="A directory and everything below.")
@session_option
@connected
def remove(client: Client, *, path: str, recursive: bool, session_id: str | None) -> None:
    """Remove a file."""
    client.remove_file(choosing.find(client, session_id), path, recursive=recursive)
    say(f"removed {path}")
