"""Environments, the host's and those that principals made, and agents."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from sandcell.models import constraints
from sandcell.models.model import Model
from sandcell.models.network import Network

EnvironmentKind = Literal["host", "made"]
MadeMode = Literal["SANDBOX", "PUBLIC"]


class LanguageInfo(Model):
    """A language of an environment's sessions, and what runs it there, the default first."""

    name: str
    runtimes: list[str]


class PoolInfo(Model):
    """Sandboxes of a host's environment that are started before sessions ask for them.

    Between `least` and `most` by demand, `target` now. `ready` wait for a session, `starting` will. Since the service
    began: `hits` sessions got one, `misses` found none, `failures` did not start. `seconds_to_ready` of the last one.
    """

    least: int
    most: int
    target: int
    ready: int
    starting: int
    hits: int
    misses: int
    failures: int
    memory_bytes: int
    seconds_to_ready: float | None = None


class EnvironmentInfo(Model):
    """An environment as callers see it: the host's, which are everybody's, or one that you made.

    Sessions and agents name it by `id`; a host's is its name. `image` is what it is made from, `packages` and `apt`
    are added to that. `status` UNAVAILABLE: no session can start from it now, and `failure` says why; BUILDING: its
    image is being built; FAILED: that came to nothing, and `failure` says why. `build_log` is what the build printed,
    shown to those who ask for one environment. The host's have no times and no tags. `pool` is shown to administrators
    who ask for one environment of the host's that has one.
    """

    name: str
    description: str
    digest: str
    memory_mb: int
    vcpus: float
    storage_mb: int
    network: Network
    image: str = ""
    runtime: str = ""
    pids: int = 0
    id: str = ""
    kind: Literal["host", "made"] = "host"
    status: Literal["READY", "BUILDING", "FAILED", "UNAVAILABLE", "DELETED"] = "READY"
    failure: str = ""
    languages: list[LanguageInfo] = msgspec.field(default_factory=list)
    role_arn: str = ""
    tags: dict[str, str] = msgspec.field(default_factory=dict)
    created_at: str | None = None
    updated_at: str | None = None
    pool: PoolInfo | None = None
    packages: list[str] = msgspec.field(default_factory=list)
    apt: list[str] = msgspec.field(default_factory=list)
    build_log: str = ""


class CreateEnvironment(Model, forbid_unknown_fields=True):
    """Body of `POST /v1/environments`; what is left out of memory and storage is the host's environment's.

    Without memory the vCPUs are as well.
    """

    name: Annotated[
        str,
        constraints.ENVIRONMENT_NAME,
        msgspec.Meta(description="a letter, then up to 47 letters, digits and `_`; yours alone"),
    ]
    image: Annotated[
        str, constraints.NOT_EMPTY, msgspec.Meta(description="the host's environment that it is made from")
    ] = "python"
    description: Annotated[str, constraints.DESCRIPTION, msgspec.Meta(max_length=4096)] = ""
    memory_mb: Annotated[int | None, constraints.MEMORY_MB, msgspec.Meta(description="1,769 to `memory_mb_max`")] = None
    vcpus: Annotated[
        float | None,
        constraints.VCPUS,
        msgspec.Meta(description="0.25 to `vcpus_max`, and no more than the host has; left out: `memory_mb` / 1,769"),
    ] = None
    storage_mb: Annotated[int | None, constraints.STORAGE_MB, msgspec.Meta(description="512 to `storage_mb_max`")] = (
        None
    )
    network: Annotated[
        MadeMode, constraints.NETWORK, msgspec.Meta(description="one of the setting `made_network_modes`")
    ] = "SANDBOX"
    role_arn: Annotated[
        str, constraints.ROLE_ARN, msgspec.Meta(max_length=2048, description="counts where the operator declares it")
    ] = ""
    tags: constraints.Tags = msgspec.field(default_factory=dict)
    packages: Annotated[
        list[Annotated[str, constraints.REQUIREMENT]],
        constraints.PACKAGES,
        msgspec.Meta(description="Python packages that are added to the image, as `humanize` or `tqdm==4.67.1`"),
    ] = msgspec.field(default_factory=list)
    apt: Annotated[
        list[Annotated[str, constraints.DEBIAN_PACKAGE]],
        constraints.PACKAGES,
        msgspec.Meta(description="Debian packages that are added to the image, as `gdal-bin`"),
    ] = msgspec.field(default_factory=list)


class PackageInfo(Model):
    """A package that is installed in an environment's image.

    `kind` is `python` for what Python imports, `system` for the rest. `source` is who installed it: `pip`, `apt`,
    `conda`, or empty when the image does not say.
    """

    name: str
    version: str
    kind: str = "python"
    source: str = ""


class ChangeTags(Model, forbid_unknown_fields=True):
    """Body of `POST /v1/environments/{environment_id}/tags`: first keys are removed, then tags are set."""

    set: constraints.Tags = msgspec.field(default_factory=dict)
    remove: list[str] = msgspec.field(default_factory=list)


class Tags(Model):
    """The tags of an environment."""

    tags: dict[str, str]


class Dependents(Model):
    """Who needs an environment: your agents by name, your live sessions by id, and agents that were detached from it.

    Each list has at most 1,000 items; the counts are of all.
    """

    environment: str
    agents: list[str]
    sessions: list[str]
    detached_agents: list[str]
    agent_count: int
    session_count: int
    detached_count: int


class AttachAgents(Model, forbid_unknown_fields=True):
    """Body of `POST /v1/environments/{environment_id}/attach`; when it is empty, those come back that were here."""

    detached_from: Annotated[str | None, msgspec.Meta(description="the environment that they were detached from")] = (
        None
    )


class Moved(Model):
    """How many agents were detached from an environment, or attached to it, and the names of the first 1,000."""

    environment: str
    agents: list[str]
    count: int


class PutAgent(Model, forbid_unknown_fields=True):
    """Body of `PUT /v1/agents/{agent_id}`: all is replaced. Without an environment the agent starts no session."""

    environment: str | None = None
    description: Annotated[str, constraints.DESCRIPTION, msgspec.Meta(max_length=4096)] = ""


class AgentInfo(Model):
    """A named user of an environment. Without one, `detached_from` says which one it had."""

    name: str
    description: str
    environment: str | None
    detached_from: str | None
    created_at: str
    updated_at: str
