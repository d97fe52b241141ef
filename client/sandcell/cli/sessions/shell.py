"""`sandcell shell`: a shell in a live session, at this terminal, or one command of it."""

from __future__ import annotations

import re
import sys

import click

from sandcell import Client, exits
from sandcell.cli import completion
from sandcell.cli.options import as_json, connected, session_option
from sandcell.cli.screen import say, show_json, write
from sandcell.cli.sessions import choosing

LARGEST_STATUS = 255


SESSION = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


@click.command(short_help="Open a shell in a session, or run a command there.")
@click.argument("command", metavar="[SESSION|COMMAND]", required=False, shell_complete=completion.sessions)
@session_option
@click.option("-i", "--interactive", is_flag=True, help="Type into COMMAND, in a terminal where this is one.")
@click.option("--timeout", "timeout_seconds", type=float, metavar="SECONDS", help="Kill it after this long.")
@as_json
@connected
def shell(
    client: Client,
    *,
    command: str | None,
    session_id: str | None,
    interactive: bool,
    timeout_seconds: float | None,
    as_json: bool,
) -> None:
    """Open a shell in the sandbox of SESSION (default: the current one), or run a shell COMMAND there.

    \b
      sandcell shell
      sandcell shell 'ls -l; head data.csv'
      sandcell shell -i 'vim notes.txt'

    It ends with the exit status of what ran, or 128 and a signal's number. In a shell, Ctrl-C and all other keys go to
    what runs there; `~.` at the start of a line leaves, and ends it. Without a terminal, it reads commands from
    standard input. A COMMAND without -i has no input, and its output comes at its end.
    """
    if command is not None and SESSION.fullmatch(command):
        if session_id not in (None, command):
            raise click.UsageError("two sessions are named: leave --session out")
        command, session_id = None, command
    if command is not None and not interactive:
        _run(client, choosing.find(client, session_id), command, timeout_seconds, as_json=as_json)
        return
    if as_json:
        raise click.UsageError("--json is for a COMMAND without -i")
    from sandcell.cli.sessions import terminal  # noqa: PLC0415 - other verbs work where there are no terminals

    asked = [] if command is None else ["/bin/sh", "-c", command]
    opened = terminal.Terminal(client, choosing.find(client, session_id), on_terminal=terminal.is_terminal())
    raise click.exceptions.Exit(opened.run(asked, timeout_seconds))


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
