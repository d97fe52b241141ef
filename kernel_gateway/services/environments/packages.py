"""What is installed in the images that environments are made from, read once for each image."""

from __future__ import annotations

import asyncio
import bisect
import itertools
import weakref
from collections.abc import Mapping, Sequence
from typing import Final

import structlog

from kernel_gateway.cursors import cursor_to, nonsense, place_in
from kernel_gateway.identity.principal import Principal
from kernel_gateway.services.environments.environments import Environments
from kernels.environment import Environment
from kernels.errors import KernelsError
from kernels.guest_client.client import GuestClient
from kernels.images.packages import InstalledPackage, canonicalize, read_packages
from sandcell.models.environments import EnvironmentInfo, PackageInfo
from sandcell.models.model import Page

log = structlog.get_logger(__name__)
MOST_IMAGES: Final = 64
MOST_NAMED: Final = 5_000
SHOWN: Final = 3
"""How many environments are named of those that have a package."""


class Packages:
    """Reads images off the loop; what was found is kept by the image's digest, which names its content."""

    def __init__(self, environments: Environments) -> None:
        self._environments = environments
        self._found: dict[str, tuple[InstalledPackage, ...]] = {}
        self._has: dict[tuple[str, str], bool] = {}
        self._reading = asyncio.Lock()
        self._elsewhere: dict[str, str] = {}
        self._elsewhere_of: tuple[tuple[str, str], ...] = ()
        self._told: weakref.WeakKeyDictionary[GuestClient, dict[str, str]] = weakref.WeakKeyDictionary()

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
        return Page([describe_package(each) for each in page], _cursor(page[-1]) if more else None)

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

    async def has(self, info: EnvironmentInfo, name: str) -> bool:
        """Whether there is a Python package in an environment's image."""
        host = self._environments.find_host(info)
        if host is None:
            return False
        key = host.digest, canonicalize(name)
        if key not in self._has:
            while len(self._has) >= MOST_IMAGES:
                del self._has[next(iter(self._has))]
            found = await self.of(host)
            self._has[key] = any(each.kind == "python" and canonicalize(each.name) == key[1] for each in found)
        return self._has[key]

    async def say_elsewhere(self, guest: GuestClient) -> None:
        """Let a sandbox that reaches no package index know which environments have what; it goes without at a pinch.

        One that has been told, as in a pool before it was a session's, is told again only what has changed.
        """
        try:
            elsewhere = await self._find_elsewhere()
            if self._told.get(guest) is not elsewhere:
                await guest.put_packages(elsewhere)
                self._told[guest] = elsewhere
        except KernelsError as error:
            log.info("packages_not_said", error=str(error))

    async def _find_elsewhere(self) -> dict[str, str]:
        """Of each Python package, by its normalised name, the host's environments that have it."""
        hosts = dict(sorted(self._environments.hosts().items()))
        key = tuple((name, each.digest) for name, each in hosts.items())
        if key != self._elsewhere_of:
            have: dict[str, dict[str, str]] = {}
            for name, each in hosts.items():
                for one in await self.of(each):
                    if one.kind == "python":
                        have.setdefault(canonicalize(one.name), {})[name] = one.version
            self._elsewhere = dict(itertools.islice(((each, _word(by)) for each, by in have.items()), MOST_NAMED))
            self._elsewhere_of = key
        return self._elsewhere


def _word(versions: Mapping[str, str]) -> str:
    """Which environments have a package, by their names and its version in each."""
    named = [f"{name} ({version})" for name, version in itertools.islice(versions.items(), SHOWN)]
    more = len(versions) - len(named)
    if more:
        named.append(f"{more} more")
    return f"{' and '.join(named)} {'have' if len(versions) > 1 else 'has'} it"


def describe_package(one: InstalledPackage) -> PackageInfo:
    """A package as callers see it."""
    return PackageInfo(one.name, one.version, kind=one.kind, source=one.source)


def _cursor(last: InstalledPackage) -> str:
    return cursor_to("\n".join((last.kind, last.name, last.version, last.source)).encode())


def _place(cursor: str) -> InstalledPackage:
    words = place_in(cursor).decode("ascii", "replace").split("\n")
    if len(words) != 4:
        raise nonsense()
    return InstalledPackage(*words)
