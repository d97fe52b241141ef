"""`sandcell repl`: a prompt on a live session, with history, names of the kernel's variables, plots kept as files."""

from __future__ import annotations

import codeop
import contextlib
import importlib
import keyword
import uuid
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final

import click

from sandcell import Client, SandcellError
from sandcell.cli.options import connected, working_options
from sandcell.cli.screen import say
from sandcell.cli.sessions import choosing, current_session
from sandcell.cli.sessions.following import show_outcome
from sandcell.cli.sessions.running import carry_out
from sandcell.files import make_private_directory
from sandcell.settings import read_settings

FIRST: Final = ">>> "
NEXT: Final = "... "
MOST_KEPT: Final = 10_000
"""Lines of the history that are kept on disk."""


@click.command(short_help="An interactive prompt on a session.")
@working_options
@connected
def repl(client: Client, *, session_id: str | None, new: bool, environment: str | None, output_dir: Path) -> None:
    """Type Python, and see what it shows: in the session of the last run, or a new one.

    A line that opens a block is followed by more, up to an empty one; %magics and !commands work as in Jupyter. TAB
    completes names of variables. Ctrl-C interrupts what runs, Ctrl-D leaves; the session stays.
    """
    chosen = choosing.choose(client, session_id, new=new, environment=environment)
    say(f"session {chosen.id}; Ctrl-C interrupts, Ctrl-D leaves")
    names = _Names(client, chosen.id)
    with _history(names):
        while (source := read_source()) is not None:
            if source.strip():
                _run(client, chosen, source, output_dir)
            if not chosen.named:  # another one may have taken the place of one that ended
                chosen = replace(chosen, id=current_session.recall(client.url) or chosen.id)
            names.forget(chosen.id)
    say(f"\nthe session stays: sandcell run --session {chosen.id} CODE")


def _run(client: Client, chosen: choosing.Chosen, source: str, output_dir: Path) -> None:
    """One input to its end; what goes wrong with it does not end the prompt."""
    submission = {"idempotency_key": str(uuid.uuid4())}
    try:
        result = carry_out(client, chosen, source, submission, quiet=False)
    except SandcellError as error:
        say(f"sandcell: {error}")
        return
    except click.exceptions.Exit:
        return  # Ctrl-C was pressed twice: a message has said what still runs
    show_outcome(result)
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
        self._session_id = session_id
        self._client = client
        self._known: list[str] | None = None

    def forget(self, session_id: str) -> None:
        """Ask again, and this session, at the next TAB."""
        self._session_id = session_id
        self._known = None

    def complete(self, text: str, state: int) -> str | None:
        """Called by readline with 0, 1, 2 ... until it gives none."""
        if self._known is None:
            self._known = []
            with contextlib.suppress(SandcellError):
                self._known = [each.name for each in self._client.variables(self._session_id).variables]
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
    file = read_settings().state_dir / "repl_history"
    with contextlib.suppress(OSError):
        readline.read_history_file(file)
    readline.set_completer(names.complete)
    readline.parse_and_bind("tab: complete")
    try:
        yield
    finally:
        readline.set_history_length(MOST_KEPT)
        with contextlib.suppress(OSError):
            make_private_directory(file.parent)
            readline.write_history_file(file)
            file.chmod(0o600)
