"""The images that environments are made from, as callers see them: what is in each, and who uses it.

The host's are everybody's. One with packages that a principal added is that principal's, and administrators see it.
"""

from __future__ import annotations

import asyncio
import dataclasses
import datetime
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from kernel_gateway.cursors import cursor_to, nonsense, place_in
from kernel_gateway.environments_file import LONGEST_DESCRIPTION
from kernel_gateway.errors import InvalidRequest, UnknownEnvironment
from kernel_gateway.identity.principal import Principal
from kernel_gateway.services.environments.environments import Environments
from kernel_gateway.services.environments.packages import Packages, describe_package
from kernel_gateway.storage import environments
from kernel_gateway.storage.columns import MOST_ROWS
from kernel_gateway.storage.database import Database
from kernel_gateway.storage.environments import EnvironmentRow
from kernels import errors as below
from kernels.environment import Environment
from kernels.images import contents
from sandcell.models.images import ImageDetails, ImageInfo
from sandcell.models.model import Page, timestamp

LONGEST_SHOWN = 100


class _Image(msgspec.Struct, frozen=True):
    """One image, the ids of the environments made from it, and whose it is: empty for the host's."""

    environment: Environment
    owner: str = ""
    users: list[str] = msgspec.field(default_factory=list)


class Images:
    """`installed` is asked every time, so a newly built image is there at once; `find_layer` finds principals' own."""

    def __init__(
        self,
        installed: Callable[[], Mapping[str, Environment]],
        database: Database,
        environments: Environments,
        packages: Packages,
        find_layer: Callable[[str], Environment],
    ) -> None:
        self._installed = installed
        self._database = database
        self._environments = environments
        self._packages = packages
        self._find_layer = find_layer

    async def list(self, principal: Principal, limit: int = 100, cursor: str | None = None) -> Page[ImageInfo]:
        """One page, by digest: the host's and the caller's, with those of the caller's environments that use each.

        Administrators see the images of all principals.
        """
        if not 1 <= limit <= MOST_ROWS:
            raise InvalidRequest(f"limit must be between 1 and {MOST_ROWS:,}")
        after = "" if cursor is None else _read_cursor(cursor)
        there = await self._collect(principal)
        digests = sorted(each for each in there if each > after)
        infos = await asyncio.to_thread(lambda: [_describe(there[each]) for each in digests[:limit]])
        return Page(infos, cursor_to(digests[limit - 1].encode()) if len(digests) > limit else None)

    async def get(self, principal: Principal, image: str) -> ImageDetails:
        """One with its packages, by its digest or by an environment's name or id.

        Raises UnknownEnvironment, and EnvironmentUnavailable where the environment's image is not built.
        """
        found = await self._find(principal, image)
        info = await asyncio.to_thread(_describe, found)
        return ImageDetails(info, [describe_package(each) for each in await self._packages.of(found.environment)])

    async def get_sbom(self, principal: Principal, image: str) -> dict[str, Any]:
        """Its software bill of materials; raises as `get` does."""
        found = await self._find(principal, image)
        known = await asyncio.to_thread(contents.read, found.environment)
        if known is None:
            again = (
                "delete the environment, and make it again"
                if found.owner
                else "its operator runs `sandcell environments build`"
            )
            raise UnknownEnvironment(f"what is in the image {found.environment.image} was not kept: {again}")
        return contents.make_sbom(found.environment, known)

    async def _find(self, principal: Principal, image: str) -> _Image:
        there = await self._collect(principal)
        if image in there:
            return there[image]
        try:
            return there[(await self._environments.find(principal.id, image)).digest]
        except (UnknownEnvironment, KeyError):
            known = ", ".join(sorted(self._installed()))
            raise UnknownEnvironment(
                f"there is no image {image[:LONGEST_SHOWN]!r}; there are: {known}; and those of environments you made"
            ) from None

    async def _collect(self, principal: Principal) -> dict[str, _Image]:
        """What the principal may see, by digest."""
        hosts, found = self._installed(), dict[str, _Image]()
        for name in sorted(hosts):
            found.setdefault(hosts[name].digest, _Image(hosts[name])).users.append(name)
        for row in await self._list_made(principal):
            if row.image in hosts and row.build is None:  # with packages it has an image of its own
                found[hosts[row.image].digest].users.append(row.id)
        only = None if principal.admin else principal.id
        rows = await self._database.run(lambda c: environments.list_built(c, only))
        for row, environment in await asyncio.to_thread(self._find_layers, rows, hosts):
            found.setdefault(environment.digest, _Image(environment, row.owner)).users.append(row.id)
        return found

    def _find_layers(
        self, rows: Sequence[EnvironmentRow], hosts: Mapping[str, Environment]
    ) -> Sequence[tuple[EnvironmentRow, Environment]]:
        """Those that are there, named and described like the image they are made over."""
        found = []
        for row in rows:
            try:
                built = self._find_layer(row.layer or "")
            except below.UnknownEnvironment:  # its environment says so
                continue
            added = row.added or environments.Added()
            over = f"{built.description}; with {', '.join((*added.apt, *added.packages))}"
            name = hosts[row.image].image if row.image in hosts else row.image
            found.append((row, dataclasses.replace(built, image=name, description=over[:LONGEST_DESCRIPTION])))
        return found

    async def _list_made(self, principal: Principal) -> Sequence[EnvironmentRow]:
        """All environments of a principal."""
        found: list[EnvironmentRow] = []
        cursor: str | None = None
        while True:
            after = cursor
            rows, cursor = await self._database.run(
                lambda c, after=after: environments.list_of(c, principal.id, MOST_ROWS, after)  # type: ignore[misc]
            )
            found += rows
            if cursor is None:
                return found


def _read_cursor(cursor: str) -> str:
    digest = place_in(cursor).decode("ascii", "replace")
    if not re.fullmatch(r"sha256:[0-9a-f]{1,64}", digest):
        raise nonsense()
    return digest


def _describe(image: _Image) -> ImageInfo:
    environment = image.environment
    info = ImageInfo(
        digest=environment.digest,
        name=environment.image or environment.name,
        description=environment.description,
        environments=image.users,
        owner=image.owner,
    )
    known = contents.read(environment)
    if known is not None:
        info.system, info.python_version, info.size_bytes = known.system, known.python_version, known.bytes
        info.package_count, info.languages = len(known.packages), [*known.kernels]
        info.notes = [*known.notes]
        info.built_at = timestamp(datetime.datetime.fromtimestamp(known.built_at, datetime.UTC))
    return info
