"""What is installed in the images that environments are made from, read once for each image."""

from __future__ import annotations

import asyncio
import bisect
from collections.abc import Sequence
from typing import Final

from kernel_gateway.cursors import cursor_to, nonsense, place_in
from kernel_gateway.identity.principal import Principal
from kernel_gateway.services.environments.environments import Environments
from kernels.environment import Environment
from kernels.images.packages import InstalledPackage, canonicalize, read_packages
from sandcell.models.environments import PackageInfo
from sandcell.models.model import Page

MOST_IMAGES: Final = 64


class Packages:
    """Reads images off the loop; what was found is kept by the image's digest, which names its content."""

    def __init__(self, environments: Environments) -> None:
        self._environments = environments
        self._found: dict[str, tuple[InstalledPackage, ...]] = {}
        self._reading = asyncio.Lock()

    async def list(
        self, principal: Principal, environment: str, limit: int, cursor: str | None, name: str | None
    ) -> Page[PackageInfo]:
        """A page of an environment's packages by kind and name, or of those with this name.

        Raises UnknownEnvironment, EnvironmentUnavailable and InvalidRequest.
        """
        found = await self.of(await self._environments.find(principal.id, environment))
        if name is not None:
            found = tuple(each for each in found if canonicalize(each.name) == canonicalize(name))
        start = 0 if cursor is None else bisect.bisect_right(found, _place(cursor))
        page = found[start : start + limit]
        more = start + limit < len(found)
        return Page([_info(each) for each in page], _cursor(page[-1]) if more else None)

    async def of(self, environment: Environment) -> Sequence[InstalledPackage]:
        """The packages of an environment's image. One image is read at a time."""
        async with self._reading:
            found = self._found.get(environment.digest)
            if found is None:
                found = await asyncio.to_thread(read_packages, environment.root, environment.python)
                while len(self._found) >= MOST_IMAGES:
                    del self._found[next(iter(self._found))]
                self._found[environment.digest] = found
        return found


def _info(one: InstalledPackage) -> PackageInfo:
    return PackageInfo(one.name, one.version, kind=one.kind, source=one.source)


def _cursor(last: InstalledPackage) -> str:
    return cursor_to("\n".join((last.kind, last.name, last.version, last.source)).encode())


def _place(cursor: str) -> InstalledPackage:
    words = place_in(cursor).decode("ascii", "replace").split("\n")
    if len(words) != 4:
        raise nonsense()
    return InstalledPackage(*words)
