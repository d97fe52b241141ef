"""`sandcell environments build`, `import` and `export`: the images of this host, without the service."""

from __future__ import annotations

import tempfile
from pathlib import Path

import click

from kernel_gateway.cli.options import configured, configured_briefly
from kernel_gateway.settings import Settings, process_environment
from sandcell.cli.screen import say


@click.command("build", short_help="Build an image on this host; as root, without the service.")
@click.argument("name")
@configured_briefly
def build(settings: Settings, *, name: str) -> None:
    """Build the image NAME on this host, or find that it is built.

    An image is an environment of the host's: of a recipe, or a table of the environments file with a list of packages.
    This is done on the service's host, as root, and asks no service.
    """
    from kernel_gateway.server import layers, sandboxes  # noqa: PLC0415 - the client's verbs need none of it
    from kernels.oci.environments import build as build_environment  # noqa: PLC0415

    layer = sandboxes.find_layer(settings, name)
    if layer is not None:
        built = layers.build(settings, layer, say)
    else:
        built = build_environment(name, settings.environments_path, say, variables=process_environment())
    say(f"{built.name} is built: {built.digest}")


@click.command("import", short_help="Import an image on this host; as root, without the service.")
@click.argument("image", metavar="FILE|REFERENCE")
@click.option("--name", default="", metavar="NAME", help="Of the environment.  [default: as the image says]")
@click.option("--python", default="", metavar="PATH", help="Its interpreter.  [default: as the image says]")
@configured
def import_(settings: Settings, *, image: str, name: str, python: str) -> None:
    """Import an image instead of building one: from an OCI archive, from what `docker save` writes, or by reference.

    A reference is pulled by podman, docker or skopeo. Code of the image runs in sandboxes only. An image that
    `environments export` made of this version's recipe counts as built.
    """
    from kernels.oci import image_archives  # noqa: PLC0415 - the client's verbs need none of it

    with tempfile.TemporaryDirectory(prefix="sandcell-") as place:
        archive = Path(image)
        if not archive.exists():
            archive = Path(place, "image.tar")
            image_archives.fetch(image, archive, say, variables=process_environment())
        found = image_archives.import_image(archive, name, python, settings.environments_path, say)
    say(f"{found.name} is imported: {found.digest}")


@click.command(short_help="Write an image of this host to a file; as root, without the service.")
@click.argument("name")
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@configured
def export(settings: Settings, *, name: str, file: Path) -> None:
    """Write the image NAME to FILE, an OCI archive that `environments import` and container tools read."""
    from kernels.oci.image_archives import export_image  # noqa: PLC0415

    export_image(name, settings.environments_path, file, say)
