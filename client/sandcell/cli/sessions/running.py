"""`sandcell run`: code, a script or standard input, in the current session."""

from __future__ import annotations

import sys
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import click
import msgspec

from sandcell import Client, Conflict, Result, exits
from sandcell.cli.options import as_json, connected, sync_mode, working_options
from sandcell.cli.progress import following_bytes
from sandcell.cli.screen import say, show_json
from sandcell.cli.sessions import choosing
from sandcell.cli.sessions.following import Follower, show_outcome
from sandcell.models.executions import Execution, Language, LanguageRuntime
from sandcell.models.sync import SyncMode

LANGUAGES: Final[dict[str, Language]] = {
    ".py": "python",
    ".js": "javascript",
    ".mjs": "javascript",
    ".ts": "typescript",
}
"""Of scripts, by how their names end."""
LONGEST_PATH: Final = 4096


@click.command(epilog=exits.explain(), short_help="Run code in a session that remembers.")
@click.argument("code")
@click.option(
    "--file",
    "files",
    multiple=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Upload this file into the workspace first. May be given more than once.",
)
@working_options
@click.option(
    "--language",
    metavar="NAME",
    help="Language of the code: python, javascript, typescript, or one of a kernel that the image declares, as "
    "`environments show` lists them.  [default: by the script's name, else python]",
)
@click.option(
    "--runtime",
    "engine",
    metavar="NAME",
    help="What runs it: deno or nodejs for JavaScript, or a kernel of the image.  [default: the language's first]",
)
@click.option("--timeout", "timeout_seconds", type=float, metavar="SECONDS", help="Stop the code after this long.")
@sync_mode
@as_json
@connected
def run(
    client: Client,
    *,
    code: str,
    files: tuple[Path, ...],
    session_id: str | None,
    new: bool,
    environment: str | None,
    language: Language | None,
    engine: LanguageRuntime | None,
    timeout_seconds: float | None,
    sync: SyncMode | None,
    output_dir: Path,
    as_json: bool,
) -> None:
    """Run CODE in a session that remembers, and show what it prints.

    CODE is Python, or a file that ends in .py, .js or .ts, or - for standard input. The first run starts a session;
    later runs in the same account go on in it, so that

    \b
      sandcell run 'x = 41'
      sandcell run 'x + 1'
      sandcell run analysis.py --file data.csv

    share variables and files. Plots are saved as files, and none is overwritten. Ctrl-C interrupts the code.
    """
    source = _read_source(code)
    chosen = choosing.choose(client, session_id, new=new, environment=environment)
    _upload(client, chosen.id, files)
    submission = {
        "timeout_seconds": timeout_seconds,
        "language": language or _language_of(code),
        "runtime": engine,
        "idempotency_key": str(uuid.uuid4()),
        "sync": sync,
    }
    result = carry_out(client, chosen, source, submission, quiet=as_json)
    _show(result, result.save(output_dir), as_json=as_json)
    raise click.exceptions.Exit(exits.OF_STATUS[result.status])


def _upload(client: Client, session_id: str, files: Sequence[Path]) -> None:
    for path in files:
        with following_bytes(path.name) as note:
            client.upload(session_id, path.name, path, on_progress=note)


def _show(result: Result, saved: Sequence[Path], *, as_json: bool) -> None:
    """The outcome, and where its plots are."""
    if as_json:
        show_json({**msgspec.to_builtins(result.execution), "saved": [str(path) for path in saved]})
        return
    show_outcome(result)
    for path in saved:
        say(f"saved {path}")


def _language_of(code: str) -> Language:
    """By the script's name; of all else Python."""
    return LANGUAGES[Path(code).suffix] if _is_script(code) else "python"


def _read_source(code: str) -> str:
    """The code itself: the argument, a script's text, or standard input."""
    if code == "-":
        return _decode(sys.stdin.buffer.read(), "standard input")
    if _is_script(code):
        return _decode(Path(code).read_bytes(), code)
    if code.endswith(".py") and "\n" not in code and " " not in code:
        raise click.UsageError(f"there is no file {code}")
    try:
        code.encode()
    except UnicodeEncodeError:
        raise click.UsageError("the code is not UTF-8") from None
    return code


def _is_script(code: str) -> bool:
    """Whether the argument names a script, and is no code."""
    return code.endswith(tuple(LANGUAGES)) and len(code) < LONGEST_PATH and Path(code).is_file()


def _decode(content: bytes, name: str) -> str:
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise click.UsageError(f"{name} is not UTF-8") from None


def carry_out(
    client: Client, chosen: choosing.Chosen, source: str, submission: dict[str, Any], *, quiet: bool
) -> Result:
    """Submit and follow; when the current session ended just now, once more in a new one."""
    session_id = chosen.id
    try:
        execution = client.submit(session_id, source, **submission)
    except Conflict as error:
        if error.code != "session_terminated" or chosen.named:
            raise
        session_id = choosing.replace_ended(client, client.get_session(session_id), None)
        execution = client.submit(session_id, source, **submission)
    return _follow(client, session_id, execution, quiet=quiet)


def _follow(client: Client, session_id: str, execution: Execution, *, quiet: bool) -> Result:
    try:
        return Follower(client, session_id, quiet).follow(execution.id)
    except KeyboardInterrupt:
        say(f"left; the execution {execution.id} of session {session_id} may still run")
        raise click.exceptions.Exit(exits.INTERRUPTED) from None
