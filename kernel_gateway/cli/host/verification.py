"""`sandcell audit verify` and `sandcell notebook verify`: whether a record is as it was written."""

from __future__ import annotations

from pathlib import Path

import click

from kernel_gateway.cli.options import configured_briefly
from kernel_gateway.settings import Settings
from kernels.errors import InvalidManifest, InvalidNotebook
from kernels.notebook import chain
from kernels.notebook.notebook_json import read_as_written
from sandcell import exits
from sandcell.cli.options import as_json
from sandcell.cli.screen import say, show_json
from sandcell.cli.terminal_text import clean_line

NOTEBOOK_FILE_BYTES = 2_000_000_000
"""The largest file that `notebook verify` reads: as large as a service can be set to write."""
FOUND = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.command("verify")
@click.option(
    "--file",
    "files",
    multiple=True,
    type=FOUND,
    metavar="FILE",
    help="A file of audit records as JSON lines, of this service or from a sink; may be given again.",
)
@click.option("--public-key", metavar="HEX", help="Verify signatures with this key.  [default: the service's, if here]")
@as_json
@configured_briefly
def verify_audit_log(settings: Settings, *, files: tuple[Path, ...], public_key: str | None, as_json: bool) -> None:
    """Say whether the audit log is as it was written; name the first record that is changed or missing.

    Reads the database that the settings name, also while the service runs. With --file: lines that were kept
    elsewhere, by themselves and against that database, if there is one.
    """
    from kernel_gateway.services.audit import inspection as audit_inspection  # noqa: PLC0415 - the client's verbs need none of it

    try:
        found = audit_inspection.inspect(settings, files, public_key)
    except (OSError, ValueError) as error:
        raise click.ClickException(str(error)) from error
    if as_json:
        show_json(found)
    else:
        for each in found:
            for text in each.sentences():
                click.echo(clean_line(text))
    if not all(each.report.whole for each in found):
        raise click.exceptions.Exit(exits.CODE_FAILED)


@click.command("verify", short_help="Say whether a notebook is the record as it was written.")
@click.argument("file", type=FOUND)
@click.option("--manifest", type=FOUND, help="The manifest.  [default: FILE with the ending .json, if it is there]")
def verify_notebook(*, file: Path, manifest: Path | None) -> None:
    """Say whether the notebook in FILE is the record as it was written, and which cell is the first that is not.

    Without a manifest it is not seen when the end was cut off or all of it written again.
    """
    next_to_it = file.with_suffix(".json")
    manifest = manifest or (next_to_it if next_to_it.is_file() and next_to_it != file else None)
    try:
        against = None if manifest is None else chain.read_manifest(manifest.read_bytes())
        found = chain.verify(read_as_written(_read(file), NOTEBOOK_FILE_BYTES), against)
    except InvalidManifest as error:
        raise click.UsageError(f"{manifest}: {error}") from error
    except InvalidNotebook as error:
        say(f"{file} is not whole: {error}")
        raise click.exceptions.Exit(exits.CODE_FAILED) from error
    if not found.whole:
        say(f"{file} is not whole: {_describe_place(found)}")
        raise click.exceptions.Exit(exits.CODE_FAILED)
    by = f"by {manifest}" if manifest else "in itself; give --manifest to know that nothing is missing at the end"
    say(f"{file} is whole: {found.cells:,} cells, {by}")


def _read(file: Path) -> bytes:
    if file.stat().st_size > NOTEBOOK_FILE_BYTES:
        raise InvalidNotebook(f"it has {file.stat().st_size:,} bytes, and at most {NOTEBOOK_FILE_BYTES:,} are read")
    return file.read_bytes()


def _describe_place(found: chain.Verified) -> str:
    bad = found.first_bad
    if bad is None or bad.index is None:
        return bad.why if bad else "it cannot be said why"
    named = f" ({ascii(bad.id[:64])[1:-1]})" if bad.id else ""
    return f"cell {bad.index + 1}{named}: {bad.why}"
