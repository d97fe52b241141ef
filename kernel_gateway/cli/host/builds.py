"""`sandcell environments build`: the images of this host."""

from __future__ import annotations

import click

from kernel_gateway.cli.options import configured_briefly
from kernel_gateway.settings import Settings, process_environment
from sandcell.cli.screen import say


@click.command("build", short_help="Build an image on this host; as root, without the service.")
@click.argument("name")
@configured_briefly
def build(settings: Settings, *, name: str) -> None:
    """Build the image NAME on this host, or find that it is built.

    An image is an environment of the host's. This is done on the service's host, as root, and asks no service.
    """
    from kernels.oci.environments import build as build_environment  # noqa: PLC0415

    built = build_environment(name, settings.environments_path, say, variables=process_environment())
    say(f"{built.name} is built: {built.digest}")
