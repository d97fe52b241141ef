"""`sandcell shell`: a shell command in a live session."""

from __future__ import annotations

import sys

import click

from sandcell import Client, exits
from sandcell.cli.options import as_json, connected, session_option
from sandcell.cli.screen import say, show_json, write
from sandcell.cli.sessions import choosing

LARGEST_STATUS = 255


@click.command(short_help="Run a shell command in a session.")
@click.argument("command")
@session_option
@click.option("--timeout", "timeout_seconds", type=float, metavar="SECONDS", help="Kill it after this long.")
@as_json
@connected
def shell(
    client: Client, *, command: str, session_id: str | None, timeout_seconds: float | None, as_json: bool
) -> None:
    """Run a shell COMMAND in the sandbox of a session (default: the current one), and end with its exit status.

    \b
      sandcell shell 'ls -l; head data.csv'
      sandcell shell 'pip install humanize'
    """
    done = client.command(choosing.find(client, session_id), command, timeout_seconds=timeout_seconds)
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
