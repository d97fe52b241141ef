"""Environments as callers see them. Pure."""

from __future__ import annotations

from typing import Literal

from kernel_gateway.services.clock import rfc3339
from kernel_gateway.services.environments import custom
from kernel_gateway.settings import Settings
from kernel_gateway.storage.environments import BUILDING, FAILED, EnvironmentRow
from kernels.environment import Environment, ExecutionRole, NetworkMode, NetworkPolicy
from kernels.images.kernelspecs import find_runtimes, read_kernelspecs
from kernels.languages import BUILT_IN, list_runtimes
from sandcell.models.environments import EnvironmentInfo, LanguageInfo
from sandcell.models.network import EndpointInfo, Network, NetworkLimits, RoleInfo


def info_of_host(environment: Environment, settings: Settings) -> EnvironmentInfo:
    """One that is everybody's."""
    return EnvironmentInfo(
        name=environment.name,
        description=environment.description,
        digest=environment.digest,
        memory_mb=environment.resources.memory_mb,
        vcpus=round(environment.resources.vcpus, 3),
        storage_mb=environment.resources.storage_mb,
        network=network_info(environment, settings),
        image=environment.image or environment.name,
        runtime=environment.runtime or settings.runtime,
        pids=environment.resources.pids,
        id=environment.name,
        languages=list_languages(environment),
    )


def list_languages(environment: Environment) -> list[LanguageInfo]:
    """Those that its image runs."""
    if not environment.root:
        return []
    path = dict(environment.variables).get("PATH", "")
    there = find_runtimes(environment.root, path)
    found = list_runtimes(read_kernelspecs(environment.root, environment.python))
    runs = {name: [each for each in all_ if each not in BUILT_IN or each in there] for name, all_ in found.items()}
    return [LanguageInfo(name, runtimes) for name, runtimes in runs.items() if runtimes]


def info_of_made(
    row: EnvironmentRow, environment: Environment | None, settings: Settings, failure: str = ""
) -> EnvironmentInfo:
    """One that a principal made; without an `environment` it cannot be started from, and `failure` says why."""
    stands = environment or Environment(
        name=row.id,
        root="",
        digest="",
        resources=custom.make_resources(row, settings, 0),
        network=NetworkPolicy(NetworkMode(row.network)),
    )
    info = info_of_host(stands, settings)
    info.id, info.name, info.description, info.image = row.id, row.name, row.description, row.image
    info.kind, info.role_arn, info.tags = "made", row.role_arn, row.tags
    info.status, info.failure = "READY" if environment is not None else "UNAVAILABLE", failure
    info.created_at, info.updated_at = rfc3339(row.created), rfc3339(row.updated)
    if row.added is not None:
        info.packages, info.apt = list(row.added.packages), list(row.added.apt)
    if environment is None and row.build == BUILDING:
        info.status, info.failure = "BUILDING", ""
    if environment is None and row.build == FAILED:
        info.status, info.failure = "FAILED", row.build_failure
    return info


def misses_index(environment: Environment) -> bool:
    """Whether its code reaches no package index at all."""
    return environment.network.mode is NetworkMode.SANDBOX and environment.index is None


def network_info(environment: Environment, settings: Settings) -> Network:
    """How far an environment's code reaches, as callers see it: the role without where its credentials are."""
    return Network(
        mode=environment.network.mode.value,
        allow=[
            EndpointInfo(each.host, each.port, list(each.methods), each.path_prefix)
            for each in environment.network.allow
        ],
        role=None if environment.role is None else role_info(environment.role),
        limits=NetworkLimits(
            connections=settings.egress_connections,
            requests=settings.egress_requests,
            sent_bytes=settings.egress_sent_bytes,
            received_bytes=settings.egress_received_bytes,
        ),
        index_url="" if environment.index is None else environment.index.url,
    )


def role_info(role: ExecutionRole) -> RoleInfo:
    """A role as callers see it."""
    access: Literal["read", "read-write"] = "read-write" if role.write else "read"
    return RoleInfo(role.bucket, role.prefix, access, role.endpoint_url, role.region)
