"""The client's operations on environments and agents; `sessions` says what an operation is. No I/O."""

from __future__ import annotations

from typing import Any, Literal

from sandcell.models.environments import AgentInfo, Dependents, EnvironmentInfo, EnvironmentKind, Moved, PackageInfo
from sandcell.models.images import ImageDetails, ImageInfo
from sandcell.models.model import Page
from sandcell.steps import Ask, Operation, decode, exchange, omit_none, quote

ENVIRONMENTS = "/v1/environments"
AGENTS = "/v1/agents"
IMAGES = "/v1/images"


def list_environments(
    *, kind: EnvironmentKind | None = None, limit: int = 100, cursor: str | None = None
) -> Operation[Page[EnvironmentInfo]]:
    """One page of the environments that sessions can be started from: the host's, then those that you made."""
    query = omit_none(kind=kind, limit=limit, cursor=cursor)
    return decode((yield from exchange(Ask("GET", ENVIRONMENTS, query))), Page[EnvironmentInfo])


def create_environment(
    name: str,
    *,
    image: str | None = None,
    description: str | None = None,
    memory_mb: int | None = None,
    vcpus: float | None = None,
    storage_mb: int | None = None,
    network: Literal["SANDBOX", "PUBLIC"] | None = None,
    role_arn: str | None = None,
    tags: dict[str, str] | None = None,
    packages: list[str] | None = None,
    apt: list[str] | None = None,
) -> Operation[EnvironmentInfo]:
    """Make an environment of your own; sessions and agents name it by its id, or by its name.

    With `packages` of Python's, or `apt` of Debian's, its `status` is BUILDING until the service has added them to the
    image, or FAILED, where `failure` says why: see `get_environment`.
    """
    body = omit_none(
        name=name,
        image=image,
        description=description,
        memory_mb=memory_mb,
        vcpus=vcpus,
        storage_mb=storage_mb,
        network=network,
        role_arn=role_arn,
        tags=tags,
        packages=packages,
        apt=apt,
    )
    return decode((yield from exchange(Ask("POST", ENVIRONMENTS, json=body))), EnvironmentInfo)


def get_environment(environment: str) -> Operation[EnvironmentInfo]:
    """Show an environment by its id or name."""
    return decode((yield from exchange(Ask("GET", f"{ENVIRONMENTS}/{quote(environment)}"))), EnvironmentInfo)


def delete_environment(environment: str) -> Operation[EnvironmentInfo]:
    """Delete an environment of yours; refused while agents or live sessions need it. Never sent twice."""
    ask = Ask("DELETE", f"{ENVIRONMENTS}/{quote(environment)}")
    return decode((yield from exchange(ask, repeatable=False)), EnvironmentInfo)


def tag_environment(
    environment: str, tags: dict[str, str] | None = None, *, remove: list[str] | None = None
) -> Operation[EnvironmentInfo]:
    """Remove and set tags of an environment of yours."""
    ask = Ask("POST", f"{ENVIRONMENTS}/{quote(environment)}/tags", json=omit_none(set=tags, remove=remove))
    return decode((yield from exchange(ask, repeatable=True)), EnvironmentInfo)


def environment_dependents(environment: str) -> Operation[Dependents]:
    """Who needs an environment: your agents and your live sessions."""
    return decode((yield from exchange(Ask("GET", f"{ENVIRONMENTS}/{quote(environment)}/dependents"))), Dependents)


def environment_packages(
    environment: str, *, name: str | None = None, limit: int = 1000, cursor: str | None = None
) -> Operation[Page[PackageInfo]]:
    """One page of the packages in an environment's image, by kind and name; or those of one name."""
    query = omit_none(name=name, limit=limit, cursor=cursor)
    ask = Ask("GET", f"{ENVIRONMENTS}/{quote(environment)}/packages", query)
    return decode((yield from exchange(ask)), Page[PackageInfo])


def detach_agents(environment: str) -> Operation[Moved]:
    """Detach all your agents from an environment. Never sent twice: the second answer would name none."""
    return decode((yield from exchange(Ask("POST", f"{ENVIRONMENTS}/{quote(environment)}/detach"))), Moved)


def attach_agents(environment: str, *, detached_from: str | None = None) -> Operation[Moved]:
    """Attach all your agents again that were detached from this environment, or from another. Never sent twice."""
    ask = Ask("POST", f"{ENVIRONMENTS}/{quote(environment)}/attach", json=omit_none(detached_from=detached_from))
    return decode((yield from exchange(ask)), Moved)


def list_images(*, limit: int = 100, cursor: str | None = None) -> Operation[Page[ImageInfo]]:
    """One page of the images that environments are made from."""
    return decode((yield from exchange(Ask("GET", IMAGES, omit_none(limit=limit, cursor=cursor)))), Page[ImageInfo])


def get_image(image: str) -> Operation[ImageDetails]:
    """Show an image and its packages, by its digest or the name of an environment."""
    return decode((yield from exchange(Ask("GET", f"{IMAGES}/{quote(image)}"))), ImageDetails)


def get_image_sbom(image: str) -> Operation[dict[str, Any]]:
    """The software bill of materials of an image: CycloneDX 1.5, as JSON."""
    return decode((yield from exchange(Ask("GET", f"{IMAGES}/{quote(image)}/sbom"))), dict[str, Any])


def put_agent(name: str, environment: str | None = None, *, description: str = "") -> Operation[AgentInfo]:
    """Register an agent with its environment, or replace its registration."""
    body = {"environment": environment, "description": description}
    return decode((yield from exchange(Ask("PUT", f"{AGENTS}/{quote(name)}", json=body))), AgentInfo)


def list_agents(*, limit: int = 100, cursor: str | None = None) -> Operation[Page[AgentInfo]]:
    """One page of your agents, oldest first."""
    return decode((yield from exchange(Ask("GET", AGENTS, omit_none(limit=limit, cursor=cursor)))), Page[AgentInfo])


def get_agent(name: str) -> Operation[AgentInfo]:
    """Show an agent."""
    return decode((yield from exchange(Ask("GET", f"{AGENTS}/{quote(name)}"))), AgentInfo)


def delete_agent(name: str) -> Operation[None]:
    """Forget an agent; its sessions go on. Never sent twice."""
    yield from exchange(Ask("DELETE", f"{AGENTS}/{quote(name)}"), repeatable=False)
