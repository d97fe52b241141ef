"""`sandcell mcp`: the tools for any program that speaks the Model Context Protocol, over stdin and stdout."""

from __future__ import annotations

import asyncio

import click

from sandcell import SandcellError, exits
from sandcell.cli import completion
from sandcell.cli.options import environment_option, explain_error
from sandcell.cli.verbs import ACCESS
from sandcell.tools.definitions import MOST_OUTPUT_BYTES
from sandcell.tools.toolbox import OUTPUT_BYTES


@click.command(short_help="Serve the tools over MCP, on stdin and stdout.")
@environment_option("Environment of the sessions that are started.")
@click.option(
    "--session",
    "session_id",
    metavar="ID",
    shell_complete=completion.sessions,
    help="Work in this session, which goes on afterwards.  [default: one of its own]",
)
@click.option(
    "--output-bytes",
    type=click.IntRange(1_000, MOST_OUTPUT_BYTES),
    default=OUTPUT_BYTES,
    show_default=True,
    metavar="N",
    help="How much text a result shows unless a call asks for more.",
)
@click.option("--url", **ACCESS["--url"])
@click.option("--token", **ACCESS["--token"])
@click.pass_context
def mcp(
    context: click.Context,
    *,
    environment: str | None,
    session_id: str | None,
    output_bytes: int,
    url: str | None,
    token: str | None,
) -> None:
    """Serve the tools for models over MCP, until stdin ends. Sessions that were started stop then.

    \b
      claude mcp add sandcell -- sandcell mcp --environment data
    """
    meta = context.meta
    work = _serve(
        environment, session_id, url or meta.get("sandcell.url"), token or meta.get("sandcell.token"), output_bytes
    )
    try:
        asyncio.run(work)
    except SandcellError as error:
        explain_error(error)
        raise click.exceptions.Exit(exits.of_error(error)) from error


async def _serve(
    environment: str | None, session_id: str | None, url: str | None, token: str | None, output_bytes: int
) -> None:
    from sandcell.mcp import stdio  # noqa: PLC0415 - help is shown without it
    from sandcell.tools import open_toolbox  # noqa: PLC0415

    async with open_toolbox(
        environment, session_id=session_id, url=url, token=token, output_bytes=output_bytes
    ) as toolbox:
        await stdio.serve(toolbox)
