"""`sandcell repl`: a prompt on a live session, with history, completion by the kernel, plots kept as files."""

from __future__ import annotations

import codeop
import contextlib
import importlib
import keyword
import uuid
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import click

from sandcell import Client, SandcellError
from sandcell.cli.options import connected, working_options
from sandcell.cli.screen import say
from sandcell.cli.sessions import choosing, current_session
from sandcell.cli.sessions.following import show_outcome
from sandcell.cli.sessions.running import carry_out
from sandcell.files import make_private_directory
from sandcell.models.inspection import Completions
from sandcell.settings import read_settings

FIRST: Final = ">>> "
NEXT: Final = "... "
MOST_KEPT: Final = 10_000
"""Lines of the history that are kept on disk."""
TAB_SECONDS: Final = 2.0
"""How long the kernel has to complete what is typed, while nothing can be typed."""


@click.command(short_help="An interactive prompt on a session.")
@working_options
@connected
def repl(client: Client, *, session_id: str | None, new: bool, environment: str | None, output_dir: Path) -> None:
    """Type Python, and see what it shows: in the session of the last run, or a new one.

    A line that opens a block is followed by more, up to an empty one; %magics and !commands work as in Jupyter. TAB
    completes as in Jupyter: names, attributes, files. Ctrl-C interrupts what runs, Ctrl-D leaves; the session stays.
    """
    chosen = choosing.choose(client, session_id, new=new, environment=environment)
    say(f"session {chosen.id}; Ctrl-C interrupts, Ctrl-D leaves")
    completer = _Completer(client, chosen.id)
    with _history(completer):
        while (source := read_source(completer.lines)) is not None:
            if source.strip():
                _run(client, chosen, source, output_dir)
            if not chosen.named:  # another one may have taken the place of one that ended
                chosen = replace(chosen, id=current_session.recall(client.url) or chosen.id)
            completer.forget(chosen.id)
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


def read_source(lines: list[str]) -> str | None:
    """What is typed, up to where it is complete; None at the end of input. Ctrl-C takes it back.

    `lines` are those of it that were typed before the present one: what completes that one reads them.
    """
    lines.clear()
    while True:
        try:
            lines.append(input(NEXT if lines else FIRST))
        except EOFError:
            return None
        except KeyboardInterrupt:
            say("")
            lines.clear()
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


def find_words(found: Completions, start: int, word: int, line: str) -> list[str]:
    """A kernel's matches as readline takes them: in place of the line from `word` to the cursor, and no other part.

    `start` is where the line begins in the code. What a terminal would obey is left out.
    """
    first = found.cursor_start - start  # where the kernel's matches begin in the line
    if first < 0:  # in an earlier one, which cannot be changed any more
        return []
    words = []
    for match in found.matches:
        text = line[word:first] + match.text if first > word else _cut_prefix(match.text, line[first:word])
        if text is not None and text.isprintable():
            words.append(text)
    return words


def _cut_prefix(text: str, prefix: str) -> str | None:
    """The text after what stands before the word already; None when it would change that, which readline cannot."""
    return text.removeprefix(prefix) if text.startswith(prefix) else None


class _Completer:
    """Completes what is typed by asking the kernel; while that is busy, by the names of its variables.

    `lines` are those of the input above the present one. `readline` is the module, where Python has it.
    """

    def __init__(self, client: Client, session_id: str) -> None:
        self.lines: list[str] = []
        self.readline: Any = None
        self._session_id = session_id
        self._client = client
        self._names: list[str] | None = None
        self._words: list[str] = []

    def forget(self, session_id: str) -> None:
        """Ask for the names again, and this session, at the next TAB."""
        self._session_id = session_id
        self._names = None

    def complete(self, text: str, state: int) -> str | None:
        """Called by readline with 0, 1, 2 ... until it gives none."""
        if state == 0:
            self._words = self._find_words(text)
        return self._words[state] if state < len(self._words) else None

    def _find_words(self, text: str) -> list[str]:
        line, begin, end = self.readline.get_line_buffer(), self.readline.get_begidx(), self.readline.get_endidx()
        above = "".join(f"{each}\n" for each in self.lines)
        try:
            found = self._client.complete(self._session_id, above + line, len(above) + end, timeout=TAB_SECONDS)
        except SandcellError:
            attribute = line[:begin].endswith(".")
            return [] if attribute else [name for name in self._find_names() if name.startswith(text)]
        return find_words(found, len(above), begin, line)

    def _find_names(self) -> list[str]:
        if self._names is None:
            self._names = list(keyword.kwlist)
            with contextlib.suppress(SandcellError):
                found = self._client.variables(self._session_id).variables
                self._names = [each.name for each in found if each.name.isprintable()] + self._names
        return self._names


@contextlib.contextmanager
def _history(completer: _Completer) -> Iterator[None]:
    """Editing, history and completion where Python has readline; elsewhere the terminal's own editing."""
    try:
        readline = importlib.import_module("readline")
    except ImportError:
        yield
        return
    file = read_settings().state_dir / "repl_history"
    with contextlib.suppress(OSError):
        readline.read_history_file(file)
    completer.readline = readline
    readline.set_completer(completer.complete)
    readline.set_completer_delims(readline.get_completer_delims() + ".")  # attributes are listed without what has them
    readline.parse_and_bind("tab: complete")
    try:
        yield
    finally:
        readline.set_history_length(MOST_KEPT)
        with contextlib.suppress(OSError):
            make_private_directory(file.parent)
            readline.write_history_file(file)
            file.chmod(0o600)
