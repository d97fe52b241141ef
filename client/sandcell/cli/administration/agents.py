"""`sandcell agents ...`: named users of environments."""

from __future__ import annotations

import click

from sandcell import Client
from sandcell.cli.options import as_json, connected
from sandcell.cli.screen import say, show_json, show_table
from sandcell.cli.verbs import Verbs
from sandcell.operations import environments as e
from sandcell.paging import collect_pages


@click.group(cls=Verbs, path="agents", short_help="Register, list and forget agents.")
def agents() -> None:
    """Register, list and forget agents: named users of an environment, which their sessions start from."""


@agents.command("set")
@click.argument("agent")
@click.option("--environment", metavar="ENVIRONMENT", help="Its environment; without one it starts no session.")
@click.option("--description", default="", metavar="TEXT", help="What it is for.")
@as_json
@connected
def set_(client: Client, *, agent: str, environment: str | None, description: str, as_json: bool) -> None:
    """Register AGENT, or replace its whole registration."""
    said = client.put_agent(agent, environment, description=description)
    if as_json:
        show_json(said)
        return
    say(f"{said.name} has the environment {said.environment}" if said.environment else f"{said.name} has none")


@agents.command("ls")
@as_json
@connected
def list_(client: Client, *, as_json: bool) -> None:
    """List your agents and their environments."""
    found = client.carry_out(collect_pages(lambda cursor: e.list_agents(cursor=cursor)))
    if as_json:
        show_json(found)
        return
    rows = [
        (each.name, each.environment or "", each.detached_from or "", each.updated_at, each.description)
        for each in found
    ]
    show_table(("AGENT", "ENVIRONMENT", "DETACHED FROM", "UPDATED", "DESCRIPTION"), rows)


@agents.command("rm")
@click.argument("agent")
@connected
def remove(client: Client, *, agent: str) -> None:
    """Forget an agent; its sessions go on."""
    client.delete_agent(agent)
    say(f"forgot {agent}")
