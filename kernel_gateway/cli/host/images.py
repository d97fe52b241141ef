"""`sandcell environments build`, `import` and `export`: the images of this host, without the service."""

from __future__ import annotations

from pathlib import Path

import click

from kernel_gateway.cli.options import configured, configured_briefly
from kernel_gateway.settings import Settings, process_environment
from kernels.sandbox import RuntimeSettings
from sandcell.cli.screen import say


@click.command("build", short_help="Build an image on this host; as root, without the service.")
@click.argument("name")
@click.option("--dockerfile", metavar="DIR", type=click.Path(path_type=Path), help="Build it from a Dockerfile there.")
@click.option(
    "--python", default="", metavar="PATH", help="Its interpreter, with --dockerfile.  [default: on its PATH]"
)
@configured_briefly
def build(settings: Settings, *, name: str, dockerfile: Path | None, python: str) -> None:
    """Build the image NAME on this host, or find that it is built: from its recipe, or from a Dockerfile (by buildah).

    An image is an environment of the host's: of a recipe, or a table of the environments file with a list of packages.
    This is done on the service's host, as root, and asks no service.
    """
    from kernel_gateway.server import layers, sandboxes  # noqa: PLC0415 - the client's verbs need none of it
    from kernels.images import contents, importing, sources  # noqa: PLC0415
    from kernels.oci.environments import build as build_environment  # noqa: PLC0415

    variables, directory = process_environment(), settings.environments_path
    layer = None if dockerfile is not None else sandboxes.find_layer(settings, name)
    if dockerfile is not None:
        importing.require_name(name)
        with sources.build_source(dockerfile, say, variables=variables) as source:
            wanted = importing.Import(name, python, source.reference, variables, _sandboxes(settings))
            built = importing.import_image(source.parts, wanted, directory, say)
    elif layer is not None:
        built = layers.build(settings, layer, say)
    else:
        built = build_environment(name, directory, say, variables=variables)
    contents.record(built)
    say(f"{built.name} is built: {built.digest}")


def _sandboxes(settings: Settings) -> RuntimeSettings:
    """How images are tried: with the service's runtime, in a directory that the service does not look into."""
    return RuntimeSettings(
        runtime=settings.runtime,
        data_directory=Path(settings.data_dir) / "trials",
        run_directory=Path(settings.run_dir),
        cgroup_parent=settings.cgroup_parent,
        uid_base=settings.uid_base,
        uid_ranges=settings.uid_ranges,
    )


@click.command("import", short_help="Import an image on this host; as root, without the service.")
@click.argument("given", nargs=-1, required=True, metavar="[NAME] SOURCE")
@click.option("--name", default="", metavar="NAME", help="Of the environment.  [default: as the image says]")
@click.option("--python", default="", metavar="PATH", help="Its interpreter.  [default: on the image's PATH]")
@configured
def import_(settings: Settings, *, given: tuple[str, ...], name: str, python: str) -> None:
    """Import an image instead of building one, as the environment NAME.

    \b
    SOURCE is one of
      FILE, oci-archive:FILE, docker-archive:FILE    an archive, as container tools save it
      oci:DIR                                        a directory, an OCI image layout
      dir:ROOT                                       a directory, a root file system
      docker://registry/name@sha256:...              a registry's, by skopeo
      REFERENCE                                      as podman, docker or skopeo know it

    Code of the image runs in sandboxes only. An image that `environments export` made of this version's recipe counts
    as built.
    """
    from kernels.images import contents, importing, sources  # noqa: PLC0415 - the client's verbs need none of it

    if len(given) > 2 or (len(given) == 2 and name):
        raise click.UsageError("give one SOURCE, and a NAME before it")
    name = given[0] if len(given) == 2 else name
    importing.require_name(name)  # before the image is fetched, which may take long
    variables = process_environment()
    with sources.open_source(given[-1], say, variables=variables) as source:
        wanted = importing.Import(name, python, source.reference, variables, _sandboxes(settings))
        found = importing.import_image(source.parts, wanted, settings.environments_path, say)
    contents.record(found)
    say(f"{found.name} is imported: {found.digest}")


@click.command("prune", short_help="Remove builds of images that nothing needs; as root, without the service.")
@click.option("--yes", is_flag=True, help="Remove them. Without it they are only listed.")
@configured_briefly
def prune(settings: Settings, *, yes: bool) -> None:
    """List the builds of images that nothing needs, and with --yes remove them.

    A build is needed while it is its environment's newest, or while a sandbox runs on it, of any service that has this
    run directory. What a build that was killed has left goes as well, and what finished builds have downloaded.
    """
    from kernels.images import pruning  # noqa: PLC0415 - the client's verbs need none of it
    from kernels.oci.environments import megabytes  # noqa: PLC0415

    directory, run_directory = settings.environments_path, Path(settings.run_dir)
    if yes:
        say(f"freed {megabytes(pruning.remove_unused(directory, run_directory, say))}")
        return
    found = pruning.find_unused(directory, pruning.find_digests_in_use(run_directory))
    for one in found:
        say(f"{one.path}: {megabytes(one.bytes)} ({one.why})")
    total = megabytes(sum(one.bytes for one in found))
    say(f"{len(found)} to remove, {total}; --yes removes them" if found else "nothing to remove")


@click.command(short_help="Write an image of this host to a file; as root, without the service.")
@click.argument("name")
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@click.option("--kubernetes", is_flag=True, help="With the guest in it, as nodes of a Kubernetes cluster run it.")
@configured
def export(settings: Settings, *, name: str, file: Path, kubernetes: bool) -> None:
    """Write the image NAME to FILE, an OCI archive that `environments import` and container tools read."""
    from kernels.oci.image_archives import export_image  # noqa: PLC0415

    if kubernetes:
        from kernels.kubernetes.images import write_archive  # noqa: PLC0415

        write_archive(name, settings.environments_path, settings.kubernetes_registry, file, say)
        return
    export_image(name, settings.environments_path, file, say)
