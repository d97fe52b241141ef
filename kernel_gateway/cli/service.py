"""`sandcell serve`, `doctor` and `environments ...`: what is done on the service's own host."""

from __future__ import annotations

import click

from kernel_gateway.cli import exits
from kernel_gateway.cli.options import as_json, configured, connected
from kernel_gateway.cli.screen import say, show_json, show_table
from kernel_gateway.cli.wording import network
from kernel_gateway.client import Client
from kernel_gateway.settings import Settings, process_environment


@click.command(epilog=exits.explained())
@configured
def serve(settings: Settings) -> None:
    """Start the service, and stay until SIGTERM or Ctrl-C.

    Every setting may be given as a flag, as a SANDCELL_* variable or in a TOML file; flags win over variables, and
    those over the file. Secrets have no flag.
    """
    from kernel_gateway.starting import serve as run  # noqa: PLC0415 - the client's verbs need none of it

    run(settings)


@click.command()
@as_json
@configured
def doctor(settings: Settings, *, as_json: bool) -> None:
    """Say what this host can and cannot enforce. Fails when something required is missing."""
    from kernel_gateway.doctor import run  # noqa: PLC0415

    findings = run(settings)
    if as_json:
        show_json(findings)
    else:
        rows = [("ok" if each.ok else "NO", each.name, each.detail, each.remedy) for each in findings]
        show_table(("", "CHECK", "FOUND", "WHAT TO DO"), rows)
    if any(not finding.ok and finding.required for finding in findings):
        raise click.exceptions.Exit(exits.REFUSED)


@click.group()
def environments() -> None:
    """List and build environments."""


@environments.command("ls")
@as_json
@connected
def list_(client: Client, *, as_json: bool) -> None:
    """List the environments of the service."""
    found = client.list_environments().items
    if as_json:
        show_json(found)
        return
    rows = [
        (each.name, each.image, each.runtime, network(each.network), each.memory_mb, each.storage_mb, each.description)
        for each in found
    ]
    show_table(("NAME", "IMAGE", "RUNTIME", "NETWORK", "MEMORY MB", "STORAGE MB", "DESCRIPTION"), rows)


@environments.command("build")
@click.argument("name")
@configured
def build(settings: Settings, *, name: str) -> None:
    """Build the environment NAME on this host, or find that it is built."""
    from kernels.oci.environments import build as build_environment  # noqa: PLC0415

    built = build_environment(name, settings.environments_path, say, variables=process_environment())
    say(f"{built.name} is built: {built.digest}")
