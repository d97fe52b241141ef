"""`sandcell environments ...`: list, make and delete those of the service."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Literal

import click

from sandcell import Client
from sandcell.cli import completion
from sandcell.cli.options import as_json, connected
from sandcell.cli.screen import say, show_json, show_table
from sandcell.cli.verbs import Verbs
from sandcell.cli.wording import describe_network
from sandcell.models.environments import EnvironmentInfo, Moved
from sandcell.models.images import ImageInfo
from sandcell.operations import environments as e
from sandcell.paging import collect_pages

MOST_NAMES = 20
LOOK_SECONDS = 1.0
LINES_COMPARED = 3
COLUMNS = ("ENVIRONMENT", "IMAGE", "RUNTIME", "NETWORK", "MEMORY MB", "STORAGE MB", "STATUS", "DESCRIPTION")

IMAGE_COLUMNS = ("IMAGE", "DIGEST", "MB", "PYTHON", "PACKAGES", "BUILT", "OWNER", "ENVIRONMENTS")


@click.group(cls=Verbs, path="environments", short_help="Make, list and delete environments; build the host's.")
def environments() -> None:
    """Make, list, show and delete environments of the service; build images on this host.

    The host's environments are everybody's: their images are built here, as root, by `build`, which needs no service.
    Those that you make with `create` are yours alone, and are made from one of the host's.
    """


@environments.command("ls")
@click.option("--kind", type=click.Choice(["host", "made"]), help="Only the host's, or only those that you made.")
@as_json
@connected
def list_(client: Client, *, kind: Literal["host", "made"] | None, as_json: bool) -> None:
    """List the environments: the host's, then those that you made."""
    found = client.carry_out(collect_pages(lambda cursor: e.list_environments(kind=kind, cursor=cursor)))
    if as_json:
        show_json(found)
        return
    show_table(COLUMNS, [_row(each) for each in found])


def _row(one: EnvironmentInfo) -> tuple[object, ...]:
    network = describe_network(one.network)
    return (one.id, one.image, one.runtime, network, one.memory_mb, one.storage_mb, one.status, one.description)


@environments.command("images")
@click.argument("image", required=False)
@click.option("--sbom", is_flag=True, help="The bill of materials of IMAGE: CycloneDX, as JSON.")
@as_json
@connected
def images(client: Client, *, image: str | None, sbom: bool, as_json: bool) -> None:
    """List the images that environments are made from, or the packages of one.

    IMAGE is its digest, or the name of an environment. Images with packages of yours are shown to you and to
    administrators.
    """
    if image is None:
        if sbom:
            raise click.UsageError("name an IMAGE")
        found = client.carry_out(collect_pages(lambda cursor: e.list_images(cursor=cursor)))
        if as_json:
            show_json(found)
        else:
            show_table(IMAGE_COLUMNS, [_image_row(each) for each in found])
    elif sbom:
        show_json(client.get_image_sbom(image))
    else:
        details = client.get_image(image)
        if as_json:
            show_json(details)
        else:
            show_table(
                ("KIND", "PACKAGE", "VERSION"), [(each.kind, each.name, each.version) for each in details.packages]
            )


def _image_row(one: ImageInfo) -> tuple[object, ...]:
    digest = one.digest.removeprefix("sha256:")[:12]
    size = f"{one.size_bytes / 1_000_000:,.0f}"
    known = (one.name, digest, size, one.python_version, one.package_count, one.built_at)
    return (*known, one.owner, ", ".join(one.environments))


@environments.command("create", short_help="Make an environment of your own.")
@click.argument("name")
@click.option("--image", metavar="ENVIRONMENT", help="The host's environment to make it from.  [default: python]")
@click.option("--description", metavar="TEXT", help="What it is for.")
@click.option("--memory-mb", type=int, metavar="MB", help="Its memory.  [default: the image's]")
@click.option("--vcpus", type=float, metavar="NUMBER", help="Its vCPUs.  [default: those that come with the memory]")
@click.option("--storage-mb", type=int, metavar="MB", help="Its disk.  [default: the image's]")
@click.option("--network", type=click.Choice(["SANDBOX", "PUBLIC"]), help="What it may reach.  [default: SANDBOX]")
@click.option("--role-arn", metavar="ARN", help="Its execution role; grants what the operator declares for it.")
@click.option("--tag", "tags", multiple=True, metavar="KEY=VALUE", help="A tag. May be given more than once.")
@click.option("--package", "packages", multiple=True, metavar="PACKAGE", help="A Python package to add. Repeatable.")
@click.option("--apt", multiple=True, metavar="PACKAGE", help="A Debian package to add. Repeatable.")
@as_json
@connected
def create(
    client: Client,
    *,
    name: str,
    image: str | None,
    description: str | None,
    memory_mb: int | None,
    vcpus: float | None,
    storage_mb: int | None,
    network: Literal["SANDBOX", "PUBLIC"] | None,
    role_arn: str | None,
    tags: tuple[str, ...],
    packages: tuple[str, ...],
    apt: tuple[str, ...],
    as_json: bool,
) -> None:
    """Make an environment of your own, NAME, and print its id.

    NAME is a letter and up to 47 letters, digits and underscores. With packages the service builds an image first,
    where its operator allows that: `show` says how far it is.
    """
    made = client.create_environment(
        name,
        image=image,
        description=description,
        memory_mb=memory_mb,
        vcpus=vcpus,
        storage_mb=storage_mb,
        network=network,
        role_arn=role_arn,
        tags=_tags(tags),
        packages=[*packages] or None,
        apt=[*apt] or None,
    )
    if as_json:
        show_json(made)
        return
    click.echo(made.id)
    say(_tell_made(made))


def _tell_made(made: EnvironmentInfo) -> str:
    """What is to be done next."""
    if made.status == "BUILDING":
        return f"{made.id} is being built; see how far it is: sandcell environments show {made.name}"
    return f"made {made.id}; start a session in it: sandcell session new --environment {made.name}"


def _tags(given: tuple[str, ...]) -> dict[str, str]:
    for each in given:
        if "=" not in each:
            raise click.UsageError(f"a tag is written as KEY=VALUE, not {each!r}")
    return {key: value for key, _, value in (each.partition("=") for each in given)}


@environments.command("show")
@click.argument("environment", shell_complete=completion.environments)
@click.option("--follow", is_flag=True, help="First print what the build of its image prints, to the build's end.")
@as_json
@connected
def show(client: Client, *, environment: str, follow: bool, as_json: bool) -> None:
    """Show an environment by its id or name, and who needs it.

    Of one whose image is being built, or could not be, what the build has printed goes to the error output.
    """
    if follow:
        _follow_build(client, environment)
    one, needs = client.get_environment(environment), client.environment_dependents(environment)
    if as_json:
        show_json({"environment": one, "dependents": needs})
        return
    rows: list[tuple[object, object]] = [
        ("environment", one.id),
        ("name", one.name),
        ("kind", one.kind),
        ("status", one.status if not one.failure else f"{one.status}: {one.failure}"),
        ("description", one.description),
        ("image", one.image),
        ("packages added", ", ".join((*one.apt, *one.packages))),
        ("runtime", one.runtime),
        ("memory", f"{one.memory_mb:,} MB"),
        ("vCPUs", one.vcpus),
        ("languages", ", ".join(f"{each.name} ({', '.join(each.runtimes)})" for each in one.languages)),
        ("storage", f"{one.storage_mb:,} MB"),
        ("network", describe_network(one.network)),
        ("role", one.role_arn),
        ("tags", ", ".join(f"{key}={value}" for key, value in one.tags.items())),
        ("created", one.created_at),
        ("agents", ", ".join(needs.agents)),
        ("live sessions", ", ".join(needs.sessions)),
        ("agents detached", ", ".join(needs.detached_agents)),
    ]
    show_table(("", ""), rows)
    if one.status in ("BUILDING", "FAILED") and not follow:
        for line in one.build_log.splitlines():
            say(line)


def _follow_build(client: Client, environment: str) -> None:
    """Print the lines of a build's log as they come."""
    shown: list[str] = []
    while True:
        one = client.get_environment(environment)
        lines = one.build_log.splitlines()
        if one.status == "BUILDING":
            lines = lines[:-1]  # which may go on
        for line in lines[count_shown(shown, lines) :]:
            say(line)
        shown = lines or shown
        if one.status != "BUILDING":
            return
        time.sleep(LOOK_SECONDS)


def count_shown(shown: Sequence[str], lines: Sequence[str]) -> int:
    """How many of these lines of a log have been shown: what is cut of a long one is before the last of them."""
    last = [*shown[-LINES_COMPARED:]]
    for end in range(len(lines), 0, -1):
        if last and [*lines[max(end - len(last), 0) : end]] == last:
            return end
    return 0


@environments.command("packages")
@click.argument("environment", shell_complete=completion.environments)
@click.option("--name", metavar="PACKAGE", help="Only the package of this name.")
@as_json
@connected
def packages(client: Client, *, environment: str, name: str | None, as_json: bool) -> None:
    """List what is installed in an environment's image: Python packages, then those of the system."""
    found = client.carry_out(
        collect_pages(lambda cursor: e.environment_packages(environment, name=name, cursor=cursor))
    )
    if as_json:
        show_json(found)
        return
    show_table(
        ("PACKAGE", "VERSION", "KIND", "SOURCE"), [(one.name, one.version, one.kind, one.source) for one in found]
    )


@environments.command("tag")
@click.argument("environment", shell_complete=completion.environments)
@click.argument("tags", nargs=-1, metavar="[KEY=VALUE]...")
@click.option("--remove", multiple=True, metavar="KEY", help="Remove this tag first. May be given more than once.")
@as_json
@connected
def tag(client: Client, *, environment: str, tags: tuple[str, ...], remove: tuple[str, ...], as_json: bool) -> None:
    """Remove and set tags of an environment of yours, and list those it has."""
    changed = client.tag_environment(environment, _tags(tags), remove=[*remove])
    if as_json:
        show_json(changed)
        return
    show_table(("KEY", "VALUE"), list(changed.tags.items()))


@environments.command("rm")
@click.argument("environment", shell_complete=completion.environments)
@connected
def remove(client: Client, *, environment: str) -> None:
    """Delete an environment of yours. Refused while agents or live sessions need it."""
    say(f"deleted {client.delete_environment(environment).id}")


@environments.command("detach")
@click.argument("environment", shell_complete=completion.environments)
@connected
def detach(client: Client, *, environment: str) -> None:
    """Detach all your agents from an environment: they start no session until they are attached again."""
    moved = client.detach_agents(environment)
    say(f"detached {_count_agents(moved)} from {moved.environment}")


@environments.command("attach", short_help="Attach all agents again that were detached.")
@click.argument("environment", shell_complete=completion.environments)
@click.option("--detached-from", metavar="ENVIRONMENT", help="Those of another, by its id, also of a deleted one.")
@connected
def attach(client: Client, *, environment: str, detached_from: str | None) -> None:
    """Attach all your agents again that were detached from an environment, or from another."""
    moved = client.attach_agents(environment, detached_from=detached_from)
    say(f"attached {_count_agents(moved)} to {moved.environment}")


def _count_agents(moved: Moved) -> str:
    """How many agents, and the names of the first."""
    more = ", ..." if moved.count > MOST_NAMES else ""
    names = f" ({', '.join(moved.agents[:MOST_NAMES])}{more})" if moved.agents else ""
    return f"{moved.count:,} agent{'' if moved.count == 1 else 's'}{names}"
