"""`sandcell notebook ...`: a session as a notebook, a page or a script, and whether a notebook is the whole record."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, Literal

import click

from kernel_gateway import exits
from kernel_gateway.cli.options import connected
from kernel_gateway.cli.screen import say
from kernel_gateway.cli.sessions import choosing
from kernel_gateway.client import Client
from kernel_gateway.client.files import replacing
from kernels.errors import InvalidManifest, InvalidNotebook
from kernels.notebook import chain
from kernels.notebook.notebook_json import read_as_written

NOTEBOOK_FILE_BYTES = 2_000_000_000
"""The largest file that `verify` reads: as large as a service can be set to write."""

FILE = click.Path(dir_okay=False, path_type=Path)
FOUND = click.Path(exists=True, dir_okay=False, path_type=Path)


class _GetByDefault(click.Group):
    """`sandcell notebook` alone, or with a session or options, is `sandcell notebook get`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if not args or (args[0] not in self.commands and args[0] not in ctx.help_option_names):
            args = ["get", *args]
        return super().parse_args(ctx, args)


@click.group(cls=_GetByDefault, short_help="Read a session as a notebook; check that a notebook is whole.")
def notebook() -> None:
    """Read a session as a notebook (`sandcell notebook` alone: the current one); check that a notebook is whole."""


@notebook.command("get", short_help="Write a session as a notebook, a page or a script.")
@click.argument("session_id", required=False, metavar="[SESSION]")
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
    session_id = choosing.named(client, session_id)
    content = client.notebook(session_id, form or _form_of(output))
    if output is None:
        sys.stdout.buffer.write(content)
    else:
        _write(output, content)
    if manifest is not None:
        _write(manifest, client.manifest(session_id))


@notebook.command("verify", short_help="Say whether a notebook is the record as it was written.")
@click.argument("file", type=FOUND)
@click.option("--manifest", type=FOUND, help="The manifest.  [default: FILE with the ending .json, if it is there]")
def verify(*, file: Path, manifest: Path | None) -> None:
    """Say whether the notebook in FILE is the record as it was written, and which cell is the first that is not.

    Without a manifest it is not seen when the end was cut off or all of it written anew.
    """
    beside = file.with_suffix(".json")
    manifest = manifest or (beside if beside.is_file() and beside != file else None)
    try:
        against = None if manifest is None else chain.read_manifest(manifest.read_bytes())
        found = chain.verify(read_as_written(_content(file), NOTEBOOK_FILE_BYTES), against)
    except InvalidManifest as error:
        raise click.UsageError(f"{manifest}: {error}") from error
    except InvalidNotebook as error:
        say(f"{file} is not whole: {error}")
        raise click.exceptions.Exit(exits.CODE_FAILED) from error
    if not found.whole:
        say(f"{file} is not whole: {_where(found)}")
        raise click.exceptions.Exit(exits.CODE_FAILED)
    by = f"by {manifest}" if manifest else "in itself; give --manifest to know that nothing is missing at the end"
    say(f"{file} is whole: {found.cells:,} cells, {by}")


def _content(file: Path) -> bytes:
    if file.stat().st_size > NOTEBOOK_FILE_BYTES:
        raise InvalidNotebook(f"it has {file.stat().st_size:,} bytes, and at most {NOTEBOOK_FILE_BYTES:,} are read")
    return file.read_bytes()


def _where(found: chain.Verified) -> str:
    bad = found.first_bad
    if bad is None or bad.index is None:
        return bad.why if bad else "it cannot be said why"
    named = f" ({ascii(bad.id[:64])[1:-1]})" if bad.id else ""
    return f"cell {bad.index + 1}{named}: {bad.why}"


def _form_of(output: Path | None) -> Any:
    """What a file's name asks for."""
    ending = output.suffix.lstrip(".") if output else ""
    return {"htm": "html"}.get(ending, ending) if ending in ("html", "htm", "py") else "ipynb"


def _write(path: Path, content: bytes) -> None:
    with replacing(path) as stream:
        stream.write(content)
    say(f"wrote {path}")
