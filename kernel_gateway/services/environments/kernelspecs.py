"""The kernels that images declare, and so the languages of sessions."""

from __future__ import annotations

from pathlib import Path

from kernel_gateway.errors import EnvironmentUnavailable, UnknownEnvironment
from kernel_gateway.services.environments.environments import Environments
from kernels.environment import Environment
from kernels.images.kernelspecs import read_kernelspecs
from kernels.kernelspec import Kernelspec
from kernels.languages import BUILT_IN


class Kernelspecs:
    """Those of a session are of the image that its sandbox was made from, even if a newer one has been built since."""

    def __init__(self, environments: Environments) -> None:
        self._environments = environments

    async def of_session(self, environment_id: str, digest: str) -> tuple[Kernelspec, ...]:
        """`digest` names the image of the session's sandbox; it is empty before there is one."""
        try:
            environment = await self._environments.of_session(environment_id)
        except (UnknownEnvironment, EnvironmentUnavailable):
            return ()
        found = read_kernelspecs(str(_find_root(environment, digest)), environment.python)
        return tuple(each for each in found if each.name not in BUILT_IN)


def _find_root(environment: Environment, digest: str) -> Path:
    """The root file system of a build, which lies beside the image's other ones."""
    root = Path(environment.root)
    if digest in ("", environment.digest):
        return root
    return root.parent.parent / digest.replace(":", "-") / root.name
