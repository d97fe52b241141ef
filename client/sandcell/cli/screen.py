"""What commands print: tables on a terminal, tab-separated lines or JSON elsewhere; messages on standard error."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import IO, Any

import click
import msgspec

from sandcell.cli.terminal_text import clean_line, clean_text, replace_surrogates
from sandcell.cli.wording import format_value


def show_json(value: Any) -> None:
    """A shape as JSON, for programs."""
    text = json.dumps(msgspec.to_builtins(value), ensure_ascii=True, indent=2)
    click.echo(text)


def show_table(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Rows under a heading on a terminal, times by their distance; else one line a row, values parted by tabs."""
    if not sys.stdout.isatty():
        for row in rows:
            click.echo("\t".join(clean_line(str(value)) for value in row))
        return
    from rich.console import Console  # noqa: PLC0415 - takes long, and only people on a terminal need it
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    table = Table(box=None, pad_edge=False, header_style="bold", show_header=any(columns))
    for number, column in enumerate(columns):
        table.add_column(column, overflow="fold", no_wrap=number == 0)
    now = datetime.now(UTC)
    for row in rows:
        table.add_row(*(Text(clean_line(format_value(value, now))) for value in row))
    Console().print(table)


def write(text: str, *, stream: IO[str]) -> None:
    """Text of a sandbox as it comes: made harmless when a person's terminal shows it."""
    stream.write(clean_text(text) if stream.isatty() else _encodable(text, stream))
    stream.flush()


def say(message: str) -> None:
    """Write a message for the person at the terminal, on standard error."""
    click.echo(clean_line(message), err=True)


def _encodable(text: str, stream: IO[str]) -> str:
    encoding = getattr(stream, "encoding", None) or "utf-8"
    return replace_surrogates(text).encode(encoding, "replace").decode(encoding)
