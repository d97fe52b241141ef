"""`sandcell dataset ...`: files of a workspace under names, with what they hold."""

from __future__ import annotations

from typing import get_args

import click

from sandcell import Client
from sandcell.cli import completion
from sandcell.cli.options import as_json, connected
from sandcell.cli.screen import say, show_json, show_table
from sandcell.cli.verbs import Verbs
from sandcell.models.datasets import Dataset, DatasetColumn, DatasetFormat, Encoding
from sandcell.operations import datasets as d
from sandcell.paging import collect_pages


@click.group(cls=Verbs, path="dataset", short_help="Name files of data, and see what they hold.")
def dataset() -> None:
    """Name CSV, Parquet, Arrow and JSON lines files of a workspace, and see what they hold."""


@dataset.command("add")
@click.argument("workspace_id", metavar="WORKSPACE", shell_complete=completion.workspaces)
@click.argument("path")
@click.option("--name", help="Its name.  [default: the file's, without its ending]")
@click.option("--format", "format_", type=click.Choice(get_args(DatasetFormat)), help="[default: found out]")
@click.option("--encoding", type=click.Choice(get_args(Encoding)), help="Of text.  [default: utf-8, or by its mark]")
@as_json
@connected
def add(
    client: Client,
    *,
    workspace_id: str,
    path: str,
    name: str | None,
    format_: DatasetFormat | None,
    encoding: Encoding | None,
    as_json: bool,
) -> None:
    """Register the file PATH of a workspace: it is looked at in a sandbox."""
    wanted = name or path.rpartition("/")[2].partition(".")[0]
    show(client.register_dataset(workspace_id, wanted, path, format=format_, encoding=encoding), as_json=as_json)


@dataset.command("ls")
@click.argument("workspace_id", metavar="WORKSPACE", shell_complete=completion.workspaces)
@as_json
@connected
def list_(client: Client, *, workspace_id: str, as_json: bool) -> None:
    """List the datasets of a workspace."""
    found = client.carry_out(collect_pages(lambda cursor: d.list_datasets(workspace_id, cursor=cursor)))
    if as_json:
        show_json(found)
        return
    rows = [(each.name, each.format, rows_of(each), each.column_count, each.size_bytes, each.path) for each in found]
    show_table(("DATASET", "FORMAT", "ROWS", "COLUMNS", "SIZE", "PATH"), rows)


@dataset.command("show")
@click.argument("workspace_id", metavar="WORKSPACE", shell_complete=completion.workspaces)
@click.argument("name")
@as_json
@connected
def show_(client: Client, *, workspace_id: str, name: str, as_json: bool) -> None:
    """Show what a dataset holds: columns, statistics, rows."""
    show(client.get_dataset(workspace_id, name), as_json=as_json)


@dataset.command("copy")
@click.argument("workspace_id", metavar="WORKSPACE", shell_complete=completion.workspaces)
@click.argument("name")
@click.argument("to", metavar="TO")
@click.option("--name", "new_name", help="Its name there.  [default: the same]")
@click.option("--to-path", metavar="DIRECTORY", help="Where its file goes there.  [default: the same path]")
@click.option("--overwrite", is_flag=True, help="Also over a file that is there with other content.")
@as_json
@connected
def copy(
    client: Client,
    *,
    workspace_id: str,
    name: str,
    to: str,
    new_name: str | None,
    to_path: str | None,
    overwrite: bool,
    as_json: bool,
) -> None:
    """Give the workspace TO the dataset and its file."""
    made = client.copy_dataset(workspace_id, name, to, new_name=new_name, to_path=to_path, overwrite=overwrite)
    if as_json:
        show_json(made)
        return
    say(f"{made.name} is {made.path} in {made.workspace_id}")


@dataset.command("rm")
@click.argument("workspace_id", metavar="WORKSPACE", shell_complete=completion.workspaces)
@click.argument("name")
@connected
def remove(client: Client, *, workspace_id: str, name: str) -> None:
    """Forget a dataset; its file stays."""
    client.remove_dataset(workspace_id, name)
    say(f"forgot {name}")


def show(found: Dataset, *, as_json: bool) -> None:
    """One dataset, for a person or a program."""
    if as_json:
        show_json(found)
        return
    counts = f"{rows_of(found)} rows, {found.column_count:,} columns, {found.size_bytes:,} bytes"
    say(f"{found.name}: {found.format}, {counts}")
    say(found.load)
    if found.stale:
        say("the file has changed since: register it again")
    if found.profile is not None:
        if not found.profile.complete:
            say(f"statistics are of {found.profile.rows_read:,} rows ({found.profile.basis.replace('_', ' ')})")
        columns = ("COLUMN", "DTYPE", "NULLS", "UNIQUE", "MIN", "MEAN", "MAX", "TOP")
        show_table(columns, [_row(each) for each in found.profile.columns])


def rows_of(found: Dataset) -> str:
    """How many rows, and whether that is an estimate."""
    return f"{'' if found.rows_exact else '~'}{found.rows}"


def _row(column: DatasetColumn) -> list[object]:
    values = (column.null_count, column.unique, column.min, column.mean, column.max, column.top)
    return [column.name, column.dtype, *("" if value is None else value for value in values)]
