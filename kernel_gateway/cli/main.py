"""The `sandcell` command itself: its help, its version, its verbs."""

from __future__ import annotations

import click

from kernel_gateway import exits
from kernel_gateway.cli.administration.agents import agents
from kernel_gateway.cli.administration.audit import audit
from kernel_gateway.cli.administration.environments import environments
from kernel_gateway.cli.administration.keys import keys
from kernel_gateway.cli.administration.principals import admin, principal
from kernel_gateway.cli.administration.tokens import token
from kernel_gateway.cli.host.images import export, import_
from kernel_gateway.cli.host.kernelspec import kernelspec
from kernel_gateway.cli.host.service import doctor, recover, serve
from kernel_gateway.cli.sessions.attach import attach
from kernel_gateway.cli.sessions.attach_tokens import attach_token
from kernel_gateway.cli.sessions.inspection import output, variables
from kernel_gateway.cli.sessions.leases import lease
from kernel_gateway.cli.sessions.notebooks import notebook
from kernel_gateway.cli.sessions.replaying import replay
from kernel_gateway.cli.sessions.running import run
from kernel_gateway.cli.sessions.sessions import session
from kernel_gateway.cli.workspaces.datasets import dataset
from kernel_gateway.cli.workspaces.usage import expire, usage
from kernel_gateway.cli.workspaces.workspaces import workspace


@click.group(context_settings={"help_option_names": ["-h", "--help"]}, epilog=exits.explained())
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


for command in (
    serve,
    run,
    session,
    notebook,
    replay,
    variables,
    output,
    workspace,
    dataset,
    usage,
    attach,
    attach_token,
    lease,
    audit,
    token,
    keys,
    principal,
    admin,
    environments,
    agents,
    kernelspec,
    doctor,
):
    sandcell.add_command(command)
workspace.add_command(expire)
environments.add_command(import_)
environments.add_command(export)
token.add_command(recover)
