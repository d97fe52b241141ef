"""`sandcell serve` and `doctor`: what is done on the service's own host."""

from __future__ import annotations

import click

from kernel_gateway.cli.options import configured, configured_briefly
from kernel_gateway.settings import Settings
from sandcell import exits
from sandcell.cli.options import as_json
from sandcell.cli.screen import show_json, show_table


@click.command(epilog=exits.explained())
@configured
def serve(settings: Settings) -> None:
    """Start the service, and stay until SIGTERM or Ctrl-C.

    Every setting may be given as a flag, as a SANDCELL_* variable or in a TOML file; flags win over variables, and
    those over the file. Secrets have no flag.
    """
    from kernel_gateway.server.starting import serve as run  # noqa: PLC0415 - the client's verbs need none of it

    run(settings)


@click.command()
@as_json
@configured_briefly
def doctor(settings: Settings, *, as_json: bool) -> None:
    """Say what this host can and cannot enforce. Fails when something required is missing."""
    from kernel_gateway.server.doctor import run  # noqa: PLC0415

    findings = run(settings)
    if as_json:
        show_json(findings)
    else:
        rows = [("ok" if each.ok else "NO", each.name, each.detail, each.remedy) for each in findings]
        show_table(("", "CHECK", "FOUND", "WHAT TO DO"), rows)
    if any(not finding.ok and finding.required for finding in findings):
        raise click.exceptions.Exit(exits.REFUSED)
