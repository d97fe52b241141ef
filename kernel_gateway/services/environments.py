"""The environments that are built on this host."""

from __future__ import annotations

from collections.abc import Callable

from kernel_gateway.errors import UnknownEnvironment
from kernel_gateway.identity.principal import Principal
from kernel_gateway.shapes import EnvironmentInfo, Page
from kernels.environment import Environment


class Environments:
    """`installed` is asked every time, so a newly built environment is there at once."""

    def __init__(self, installed: Callable[[], dict[str, Environment]]) -> None:
        self._installed = installed

    async def list(self, principal: Principal) -> Page[EnvironmentInfo]:
        """Every environment, by name."""
        return Page([environment_info(each) for _, each in sorted(self._installed().items())])

    def find(self, name: str) -> Environment:
        """The environment of that name; raises UnknownEnvironment, naming those there are."""
        installed = self._installed()
        if name not in installed:
            known = ", ".join(sorted(installed)) or "none is built: run `sandcell environments build python`"
            raise UnknownEnvironment(f"there is no environment {name!r}; there are: {known}")
        return installed[name]


def environment_info(environment: Environment) -> EnvironmentInfo:
    """An environment as callers see it."""
    return EnvironmentInfo(
        name=environment.name,
        description=environment.description,
        digest=environment.digest,
        memory_mb=environment.resources.memory_mb,
        vcpus=round(environment.resources.vcpus, 3),
        storage_mb=environment.resources.storage_mb,
        network=str(environment.network.mode),
    )
