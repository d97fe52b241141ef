"""`sandcell repl`: a prompt on a live session, with history, names of the kernel's variables, plots kept as files."""

from __future__ import annotations

import codeop
import contextlib
import importlib
import keyword
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import click

from sandcell import Client, SandcellError
from sandcell.cli import completion
from sandcell.cli.options import connected
from sandcell.cli.screen import say
from sandcell.cli.sessions import choosing, current_session
from sandcell.cli.sessions.following import tell_outcome
from sandcell.cli.sessions.running import carry_out
from sandcell.settings import client_settings

FIRST: Final = ">>> "
NEXT: Final = "... "
MOST_KEPT: Final = 10_000
"""Lines of the history that are kept on disk."""


@click.command(short_help="An interactive prompt on a session.")
@click.option("--session", metavar="ID", shell_complete=completion.sessions, help="[env: SANDCELL_SESSION]")
@click.option("--new", is_flag=True, help="Start a new session and go on with it from now on.")
@click.option(
    "--environment",
    metavar="NAME",
    shell_complete=completion.environments,
    help="Environment of a session that is started.",
)
@click.option(
    "--output-dir",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path(),
    help="Where plots are saved.  [default: here]",
)
@connected
def repl(client: Client, *, session: str | None, new: bool, environment: str | None, output_dir: Path) -> None:
    """Type Python, and see what it shows: in the session of the last run, or a new one.

    A line that opens a block is followed by more, up to an empty one; %magics and !commands work as in Jupyter. TAB
    completes names of variables. Ctrl-C interrupts what runs, Ctrl-D leaves; the session stays.
    """
    asked = None if new else session or client_settings().session
    session_id = choosing.working(client, asked, new=new, environment=environment)
    say(f"session {session_id}; Ctrl-C interrupts, Ctrl-D leaves")
    names = _Names(client, session_id)
    with _history(names):
        while (source := read_source()) is not None:
            if source.strip():
                _run(client, names.session_id, source, output_dir, named=bool(asked))
            if not asked:  # another one may have taken the place of one that ended
                names.session_id = current_session.recall(client.url) or names.session_id
            names.forget()
    say(f"\nthe session stays: sandcell run --session {names.session_id} CODE")


def _run(client: Client, session_id: str, source: str, output_dir: Path, *, named: bool) -> None:
    """One input to its end; what goes wrong with it does not end the prompt."""
    submission = {"idempotency_key": str(uuid.uuid4())}
    try:
        result = carry_out(client, session_id, source, submission, quiet=False, named=named)
    except SandcellError as error:
        say(f"sandcell: {error}")
        return
    except click.exceptions.Exit:
        return  # Ctrl-C was pressed twice: it is said what still runs
    tell_outcome(result)
    try:
        for path in result.save(output_dir):
            say(f"saved {path}")
    except OSError as error:
        say(f"sandcell: {error}")


def read_source() -> str | None:
    """What is typed, up to where it is complete; None at the end of input. Ctrl-C takes it back."""
    lines: list[str] = []
    while True:
        try:
            lines.append(input(NEXT if lines else FIRST))
        except EOFError:
            return None
        except KeyboardInterrupt:
            say("")
            lines = []
            continue
        source = "\n".join(lines)
        if is_complete(source):
            return source


def is_complete(source: str) -> bool:
    """Whether this is all of an input: what Python cannot read (a %magic, newer syntax) is for the kernel to judge."""
    try:
        return codeop.compile_command(source, "<input>", "single") is not None
    except (SyntaxError, ValueError, OverflowError):
        return True


class _Names:
    """Completes the names of the kernel's variables, asked for once for each input."""

    def __init__(self, client: Client, session_id: str) -> None:
        self.session_id = session_id
        self._client = client
        self._known: list[str] | None = None

    def forget(self) -> None:
        self._known = None

    def complete(self, text: str, state: int) -> str | None:
        """Called by readline with 0, 1, 2 ... until it gives none."""
        if self._known is None:
            self._known = []
            with contextlib.suppress(SandcellError):
                self._known = [each.name for each in self._client.variables(self.session_id).variables]
        found = [name for name in [*self._known, *keyword.kwlist] if name.startswith(text)]
        return found[state] if state < len(found) else None


@contextlib.contextmanager
def _history(names: _Names) -> Iterator[None]:
    """Editing, history and completion where Python has readline; elsewhere the terminal's own editing."""
    try:
        readline = importlib.import_module("readline")
    except ImportError:
        yield
        return
    file = client_settings().state_dir / "repl_history"
    with contextlib.suppress(OSError):
        readline.read_history_file(file)
    readline.set_completer(names.complete)
    readline.parse_and_bind("tab: complete")
    try:
        yield
    finally:
        readline.set_history_length(MOST_KEPT)
        with contextlib.suppress(OSError):
            file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            readline.write_history_file(file)
            file.chmod(0o600)
