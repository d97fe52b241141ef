"""The environments that are built on this host."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from kernel_gateway.errors import UnknownEnvironment
from kernel_gateway.identity.principal import Principal
from kernel_gateway.settings import Settings
from kernel_gateway.shapes import EndpointInfo, EnvironmentInfo, Network, NetworkLimits, Page, RoleInfo
from kernels.environment import Environment, ExecutionRole


class Environments:
    """`installed` is asked every time, so a newly built environment is there at once."""

    def __init__(self, installed: Callable[[], dict[str, Environment]], settings: Settings) -> None:
        self._installed = installed
        self._settings = settings

    async def list(self, principal: Principal) -> Page[EnvironmentInfo]:
        """Every environment, by name."""
        return Page([self._info(each) for _, each in sorted(self._installed().items())])

    def find(self, name: str) -> Environment:
        """The environment of that name; raises UnknownEnvironment, naming those there are."""
        installed = self._installed()
        if name not in installed:
            known = ", ".join(sorted(installed)) or "none is built: run `sandcell environments build python`"
            raise UnknownEnvironment(f"there is no environment {name!r}; there are: {known}")
        return installed[name]

    def _info(self, environment: Environment) -> EnvironmentInfo:
        return EnvironmentInfo(
            name=environment.name,
            description=environment.description,
            digest=environment.digest,
            memory_mb=environment.resources.memory_mb,
            vcpus=round(environment.resources.vcpus, 3),
            storage_mb=environment.resources.storage_mb,
            network=network_info(environment, self._settings),
            image=environment.image or environment.name,
            runtime=environment.runtime or self._settings.runtime,
            pids=environment.resources.pids,
        )


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
    )


def role_info(role: ExecutionRole) -> RoleInfo:
    """A role as callers see it."""
    access: Literal["read", "read-write"] = "read-write" if role.write else "read"
    return RoleInfo(role.bucket, role.prefix, access, role.endpoint_url, role.region)
