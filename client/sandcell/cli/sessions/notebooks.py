"""`sandcell notebook ...`: a session as a notebook, a page or a script."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, Literal

import click

from sandcell import Client
from sandcell.cli import completion
from sandcell.cli.options import connected
from sandcell.cli.screen import say
from sandcell.cli.sessions import choosing
from sandcell.cli.verbs import Verbs
from sandcell.files import replacing

FILE = click.Path(dir_okay=False, path_type=Path)


class _GetByDefault(Verbs):
    """`sandcell notebook` alone, or with a session or options, is `sandcell notebook get`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if not args or (args[0] not in self.list_commands(ctx) and args[0] not in ctx.help_option_names):
            args = ["get", *args]
        return super().parse_args(ctx, args)


@click.group(cls=_GetByDefault, path="notebook", short_help="Read a session as a notebook, a page or a script.")
def notebook() -> None:
    """Read a session as a notebook, a page or a script (`sandcell notebook` alone: the current one, as a notebook)."""


@notebook.command("get", short_help="Write a session as a notebook, a page or a script.")
@click.argument("session_id", required=False, metavar="[SESSION]", shell_complete=completion.sessions)
@click.option("-o", "--output", type=FILE, help="Write here, not to stdout.")
@click.option(
    "--format",
    "form",
    type=click.Choice(["ipynb", "html", "py"]),
    help="A Jupyter notebook, an HTML page or a plain script.  [default: by the name of --output, else ipynb]",
)
@click.option("--manifest", type=FILE, help="Write the manifest here: `verify` finds changes by it.")
@connected
def get(
    client: Client,
    *,
    session_id: str | None,
    output: Path | None,
    form: Literal["ipynb", "html", "py"] | None,
    manifest: Path | None,
) -> None:
    """Write a session (default: the current one) as a Jupyter notebook, an HTML page or a plain Python script."""
    session_id = choosing.find(client, session_id)
    content = client.notebook(session_id, form or _form_of(output))
    if output is None:
        sys.stdout.buffer.write(content)
    else:
        _write(output, content)
    if manifest is not None:
        _write(manifest, client.manifest(session_id))


def _form_of(output: Path | None) -> Any:
    """What a file's name asks for."""
    ending = output.suffix.lstrip(".") if output else ""
    return {"htm": "html"}.get(ending, ending) if ending in ("html", "htm", "py") else "ipynb"


def _write(path: Path, content: bytes) -> None:
    with replacing(path) as stream:
        stream.write(content)
    say(f"wrote {path}")
