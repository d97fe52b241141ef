"""`sandcell shell`: a shell in a live session, at this terminal, or one command of it."""

from __future__ import annotations

import re
import sys

import click

from sandcell import Client, exits
from sandcell.cli import completion
from sandcell.cli.options import as_json, connected, session_option
from sandcell.cli.screen import say, show_json, show_table, write
from sandcell.cli.sessions import choosing
from sandcell.models.commands import Program

LARGEST_STATUS = 255


SESSION = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


@click.command(short_help="Open a shell in a session, or run a command there.")
@click.argument("command", metavar="[SESSION|COMMAND]", required=False, shell_complete=completion.sessions)
@session_option
@click.option("-i", "--interactive", is_flag=True, help="Type into COMMAND, in a terminal where this is one.")
@click.option("--list", "lists", is_flag=True, help="List the shells and programs that run in terminals there.")
@click.option("--attach", "program", metavar="PROGRAM", help="Return to one of them, by its id or how that begins.")
@click.option("--timeout", "timeout_seconds", type=float, metavar="SECONDS", help="Kill it after this long.")
@as_json
@connected
def shell(
    client: Client,
    *,
    command: str | None,
    session_id: str | None,
    interactive: bool,
    lists: bool,
    program: str | None,
    timeout_seconds: float | None,
    as_json: bool,
) -> None:
    """Open a shell in the sandbox of SESSION (default: the current one), or run a shell COMMAND there.

    \b
      sandcell shell
      sandcell shell 'ls -l; head data.csv'
      sandcell shell -i 'vim notes.txt'
      sandcell shell --attach 3fd1

    It ends with the exit status of what ran, or 128 and a signal's number. In a shell, Ctrl-C and all other keys go to
    what runs there; at the start of a line `~.` ends it, and `~d` leaves it running, for a while. Without a terminal,
    it reads commands from standard input. A COMMAND without -i has no input, and its output comes at its end.
    """
    if command is not None and SESSION.fullmatch(command):
        if session_id not in (None, command):
            raise click.UsageError("two sessions are named: leave --session out")
        command, session_id = None, command
    if lists or program is not None:
        if command is not None or interactive or timeout_seconds is not None or (lists and program is not None):
            raise click.UsageError("--list and --attach each go with a session alone")
        _look_back(client, choosing.find(client, session_id), program, as_json=as_json)
        return
    if command is not None and not interactive:
        _run(client, choosing.find(client, session_id), command, timeout_seconds, as_json=as_json)
        return
    if as_json:
        raise click.UsageError("--json is for a COMMAND without -i")
    _open(client, choosing.find(client, session_id), command, timeout_seconds)


def _open(client: Client, session_id: str, command: str | None, timeout_seconds: float | None) -> None:
    from sandcell.cli.sessions import terminal  # noqa: PLC0415 - other verbs work where there are no terminals

    opened = terminal.Terminal(client, session_id, on_terminal=terminal.is_terminal())
    opened.start([] if command is None else ["/bin/sh", "-c", command], timeout_seconds)
    raise click.exceptions.Exit(opened.run())


def _look_back(client: Client, session_id: str, program: str | None, *, as_json: bool) -> None:
    """Return to a program, or list those that run."""
    if program is None:
        _list(client, session_id, as_json=as_json)
    else:
        _return_to(client, session_id, program)


def _list(client: Client, session_id: str, *, as_json: bool) -> None:
    running = _find_running(client, session_id)
    if as_json:
        show_json(running)
    else:
        show_table(
            ("PROGRAM", "COMMAND", "FOLLOWERS"), [(each.id, " ".join(each.command), each.followers) for each in running]
        )


def _return_to(client: Client, session_id: str, program: str) -> None:
    from sandcell.cli.sessions import terminal  # noqa: PLC0415 - other verbs work where there are no terminals

    if not terminal.is_terminal():
        raise click.UsageError("--attach needs a terminal")
    fitting = [each.id for each in _find_running(client, session_id) if each.id.startswith(program)]
    if len(fitting) != 1:
        count = "several" if fitting else "no"
        raise click.UsageError(
            f"{count} programs with a terminal begin with {program!r}: `sandcell shell --list` names them"
        )
    opened = terminal.Terminal(client, session_id, on_terminal=True)
    opened.return_to(fitting[0])
    raise click.exceptions.Exit(opened.run())


def _find_running(client: Client, session_id: str) -> list[Program]:
    return [each for each in client.list_programs(session_id) if each.terminal]


def _run(client: Client, session_id: str, command: str, timeout_seconds: float | None, *, as_json: bool) -> None:
    done = client.command(session_id, command, timeout_seconds=timeout_seconds)
    if as_json:
        show_json(done)
    else:
        write(done.stdout, stream=sys.stdout)
        write(done.stderr, stream=sys.stderr)
        cut = done.truncated
        if cut.stdout or cut.stderr:
            say(f"[cut: {cut.stdout:,} bytes of stdout, {cut.stderr:,} of stderr]")
    if done.timed_out:
        say("the command's time was up")
        raise click.exceptions.Exit(exits.TIMED_OUT)
    if done.exit_code is None:
        say(f"the command did not end by itself: {done.status}")
        raise click.exceptions.Exit(exits.DIED)
    raise click.exceptions.Exit(min(done.exit_code, LARGEST_STATUS) if done.exit_code >= 0 else exits.DIED)
