"""`sandcell console`: the service's pages in a browser, signed in."""

from __future__ import annotations

import webbrowser

import click

from sandcell import Client
from sandcell.cli.options import connected
from sandcell.cli.screen import say


@click.command()
@click.option("--print", "only_print", is_flag=True, help="Print the link and open nothing.")
@connected
def console(client: Client, *, only_print: bool) -> None:
    """Open the service's console in a browser, signed in as you.

    The link works once, within a minute, and shows all that the token may: give it to nobody.
    """
    made = client.create_console_link()
    link = f"{client.url}{made.link}"
    if only_print:
        click.echo(link)
    elif webbrowser.open(link):
        say(f"opened {client.url} in a browser")
    else:
        click.echo(link)
        say("no browser could be opened here: open the link in one, within a minute")
