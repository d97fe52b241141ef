"""`sandcell variables` and `sandcell output`: what is inside a session."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from sandcell import Client
from sandcell.cli import completion
from sandcell.cli.options import as_json, connected
from sandcell.cli.screen import say, show_json, show_table
from sandcell.cli.sessions import choosing
from sandcell.files import replacing
from sandcell.models.inspection import Variable

COLUMNS = ("NAME", "TYPE", "SHAPE", "BYTES", "VALUE")


@click.command(short_help="List the variables of a session.")
@click.argument("session_id", required=False, metavar="[SESSION]", shell_complete=completion.sessions)
@as_json
@connected
def variables(client: Client, *, session_id: str | None, as_json: bool) -> None:
    """List the variables of a session (default: the current one), the latest first, also while its code runs."""
    found = client.variables(choosing.find(client, session_id))
    if as_json:
        show_json(found)
        return
    show_table(COLUMNS, [_row(each) for each in found.variables])
    if found.omitted:
        say(f"and {found.omitted:,} more")


def _row(each: Variable) -> tuple[object, ...]:
    shape = "x".join(map(str, each.shape)) if each.shape is not None else each.length
    values = (each.name, each.type, shape, each.size_bytes, each.preview)
    return tuple("" if value is None else value for value in values)


@click.command(short_help="Write an output in full of which a cell has a part.")
@click.argument("session_id", metavar="SESSION", shell_complete=completion.sessions)
@click.argument("sha256")
@click.option(
    "-o", "--output", "path", type=click.Path(dir_okay=False, path_type=Path), help="Write here, not to stdout."
)
@connected
def output(client: Client, *, session_id: str, sha256: str, path: Path | None) -> None:
    """Write an output in full. Its cell has the SHA-256 of it in `metadata.sandcell.full`."""
    content = client.output(session_id, sha256)
    if path is None:
        sys.stdout.buffer.write(content)
        return
    with replacing(path) as stream:
        stream.write(content)
    say(f"wrote {path}")
