"""The `sandcell` command itself: its help, its version, its verbs."""

from __future__ import annotations

from typing import Final

import click

from sandcell import exits
from sandcell.cli.verbs import Verbs

VERBS: Final = {
    "run": "sandcell.cli.sessions.running:run",
    "session": "sandcell.cli.sessions.sessions:session",
    "notebook": "sandcell.cli.sessions.notebooks:notebook",
    "shell": "sandcell.cli.sessions.shell:shell",
    "files": "sandcell.cli.sessions.files:files",
    "repl": "sandcell.cli.sessions.repl:repl",
    "replay": "sandcell.cli.sessions.replaying:replay",
    "variables": "sandcell.cli.sessions.inspection:variables",
    "output": "sandcell.cli.sessions.inspection:output",
    "workspace": "sandcell.cli.workspaces.workspaces:workspace",
    "dataset": "sandcell.cli.workspaces.datasets:dataset",
    "usage": "sandcell.cli.workspaces.usage:usage",
    "attach": "sandcell.cli.sessions.attach:attach",
    "attach-token": "sandcell.cli.sessions.attach_tokens:attach_token",
    "mcp": "sandcell.cli.sessions.mcp:mcp",
    "lease": "sandcell.cli.sessions.leases:lease",
    "checkpoint": "sandcell.cli.sessions.checkpoints:checkpoint",
    "console": "sandcell.cli.administration.console:console",
    "audit": "sandcell.cli.administration.audit:audit",
    "token": "sandcell.cli.administration.tokens:token",
    "keys": "sandcell.cli.administration.keys:keys",
    "principal": "sandcell.cli.administration.principals:principal",
    "admin": "sandcell.cli.administration.principals:admin",
    "environments": "sandcell.cli.administration.environments:environments",
    "agents": "sandcell.cli.administration.agents:agents",
    "completion": "sandcell.cli.completion:completion",
}
"""Where each verb is: only the module of the one that is called is imported."""


@click.group(
    cls=Verbs,
    lazy=VERBS,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog=exits.explain(),
)
@click.version_option(package_name="sandcell", prog_name="sandcell")
def sandcell() -> None:
    """Run code in sandboxes that remember.

    \b
      sandcell serve                             start the service here
      sandcell run 'x = 41'                      the first run starts a session
      sandcell run 'x + 1'                       prints 42: sessions remember
      sandcell run plot.py --file data.csv       upload, run, save the plots it shows
      sandcell notebook get -o history.ipynb     all of it as a notebook
      sandcell replay history.ipynb              run it again: is it the same?
      sandcell workspace ls                      files outlive their session

    The service and token come from a command's options --url and --token, from SANDCELL_URL and SANDCELL_TOKEN, or
    from what `sandcell serve` saved for its own user. On a terminal output is for people; elsewhere it is plain, or
    JSON with --json.
    """
