"""`sandcell replay`: a notebook's cells run again, and the verdict on each."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from sandcell import Client, exits
from sandcell.cli.options import as_json, connected, environment_option
from sandcell.cli.screen import say, show_json, show_table, write
from sandcell.cli.terminal_text import clean_line
from sandcell.files import replacing
from sandcell.models.executions import Event
from sandcell.models.replays import CellReplay, Replay

COLUMNS = ("CELL", "VERDICT", "SECONDS", "WHY")
TELLING = ("different", "not_deterministic", "cannot_tell", "failed")
"""Verdicts whose diff is worth a look."""


@click.command(epilog=exits.explain(), short_help="Run a notebook again and say of each cell whether it is the same.")
@click.argument("what", metavar="FILE|SESSION")
@environment_option("Of the fresh session.  [default: the recorded one's, or python]")
@click.option("--inputs", metavar="WORKSPACE", help="Start with a copy of this workspace's files.")
@click.option("--continue", "continue_session", metavar="SESSION", help="Run the cells in this live session instead.")
@click.option("--stop-on-difference", is_flag=True, help="Run no cell after the first that differs.")
@click.option("--until", metavar="CELL", help="Stop after this cell, by number or id, and keep the session.")
@click.option("--timeout", "timeout_seconds", type=float, metavar="SECONDS", help="Stop each cell after this long.")
@click.option("--once", is_flag=True, help="No second run to tell what differs from what is never the same.")
@click.option("--strict", is_flag=True, help="Put nothing aside: not what varies from run to run, no times.")
@click.option("--keep", is_flag=True, help="Keep the session, to look at.")
@click.option("-o", "--output", type=click.Path(dir_okay=False, path_type=Path), help="Write the new notebook here.")
@as_json
@connected
def replay(
    client: Client,
    *,
    what: str,
    once: bool,
    keep: bool,
    output: Path | None,
    as_json: bool,
    **asked: Any,
) -> None:
    """Run the code cells of a notebook FILE, or of a SESSION's notebook, in order in a fresh session, and compare.

    \b
      sandcell replay analysis.ipynb                      a table of verdicts
      sandcell replay analysis.ipynb --inputs WORKSPACE   with its data files
      sandcell replay SESSION --until 7                   then look: sandcell run --session ...

    A cell is named by its place among all cells of the notebook, from 1, or by its id. The exit status is 0 when every
    cell showed the same, else 1. With --json the verdicts are shown without the notebook, which -o writes.
    """
    file = _find_file(what)
    begun = client.start_replay(
        None if file is None else file.read_bytes(),
        session_id=what if file is None else None,
        determinism=not once,
        keep_session=keep,
        **asked,
    )
    ended = _follow(client, begun.id)
    if output is not None:
        with replacing(output) as stream:
            stream.write(client.replay_notebook(begun.id))
    if as_json:
        ended.notebook = None
        show_json(ended)
    else:
        workspace = "WORKSPACE" if file is not None else client.get_session(what).workspace_id
        _show(ended, output, None if asked["inputs"] else workspace)
    raise click.exceptions.Exit(exits.OK if ended.same else exits.CODE_FAILED)


def _find_file(what: str) -> Path | None:
    """The notebook file that is meant, if it is none of the sessions."""
    path = Path(what)
    if path.is_file():
        return path
    if what.endswith(".ipynb") or "/" in what:
        raise click.UsageError(f"there is no file {what}")
    return None


def _follow(client: Client, replay_id: str) -> Replay:
    """Stay until it has ended and say how far it is; Ctrl-C stops it."""
    progress = _Progress(on_terminal=sys.stderr.isatty())
    try:
        for event in client.replay_events(replay_id):
            progress.show(event)
        return client.wait_replay(replay_id)
    except KeyboardInterrupt:
        say("stopping the replay")
        client.stop_replay(replay_id)
        raise click.exceptions.Exit(exits.INTERRUPTED) from None
    finally:
        progress.clear()


class _Progress:
    """One line that is written over on a terminal, elsewhere a line for each cell."""

    def __init__(self, *, on_terminal: bool) -> None:
        self._on_terminal = on_terminal
        self._run = 0
        self._said: dict[int, str] = {}

    def show(self, event: Event) -> None:
        data = event.data
        match event.event:
            case "started":
                self._say(f"replaying {_cells(data['cells'])} in session {data['session_id']}")
            case "cell":
                self._run += 1
                if self._on_terminal:
                    self._say(f"cell {data['number']} ({self._run} of {data['cells']})")
            case "verdict":
                self._verdict(data["number"], data["verdict"])
            case "again":
                self._say(f"something differs: running {_cells(data['cells'])} again in another session")
            case _:
                pass

    def _verdict(self, number: int, verdict: str) -> None:
        """Said of each cell that ran, and again when a second run has shown more."""
        if not self._on_terminal and verdict not in ("not_run", self._said.get(number)):
            self._say(f"cell {number}: {_words(verdict)}")
        self._said[number] = verdict

    def _say(self, message: str) -> None:
        if self._on_terminal:
            sys.stderr.write("\r\x1b[K" + clean_line(message))
            sys.stderr.flush()
        else:
            say(message)

    def clear(self) -> None:
        if self._on_terminal:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()


def _show(ended: Replay, output: Path | None, workspace: str | None) -> None:
    """`workspace`: whose files the cells may have needed, where they had none of them."""
    show_table(COLUMNS, [_row(each) for each in ended.verdicts])
    for each in ended.verdicts:
        if each.diff and each.verdict in TELLING:
            write(f"\ncell {each.number}: {_words(each.verdict)}\n{each.diff.rstrip()}\n", stream=sys.stdout)
    counts = ", ".join(f"{count} {_words(verdict)}" for verdict, count in ended.counts.items())
    say(f"{counts or 'no code cells'}")
    if ended.error is not None:
        say(f"the replay ended early: {ended.error.message}")
    if workspace and any("FileNotFoundError" in each.why for each in ended.verdicts if each.verdict == "failed"):
        say(f"files that cells read come from a workspace: --inputs {workspace}")
    if output is not None:
        say(f"wrote {output}")
    if ended.session_live:
        say(f"the session stays: sandcell run --session {ended.session_id} CODE")


def _row(each: CellReplay) -> tuple[object, ...]:
    seconds = "" if each.seconds is None else f"{each.seconds:.1f}"
    return (each.number, _words(each.verdict), seconds, each.why)


def _cells(count: int) -> str:
    return f"{count:,} cell{'' if count == 1 else 's'}"


def _words(verdict: str) -> str:
    return verdict.replace("_", " ")
