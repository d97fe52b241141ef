"""The images that environments are made from, as callers see them: what is in each, and who uses it."""

from __future__ import annotations

import asyncio
import datetime
import re
from collections.abc import Callable, Mapping
from typing import Any

from kernel_gateway.cursors import cursor_to, nonsense, place_in
from kernel_gateway.errors import InvalidRequest, UnknownEnvironment
from kernel_gateway.identity.principal import Principal
from kernel_gateway.services.environments.packages import Packages, describe_package
from kernel_gateway.storage import environments
from kernel_gateway.storage.columns import MOST_ROWS
from kernel_gateway.storage.database import Database
from kernels.environment import Environment
from kernels.images import contents
from sandcell.models.images import ImageDetails, ImageInfo
from sandcell.models.model import Page, timestamp

LONGEST_SHOWN = 100
Users = Mapping[str, list[str]]
"""By digest, the ids of the environments made from it."""


class Images:
    """`installed` is asked every time, so a newly built image is there at once."""

    def __init__(
        self, installed: Callable[[], Mapping[str, Environment]], database: Database, packages: Packages
    ) -> None:
        self._installed = installed
        self._database = database
        self._packages = packages

    async def list(self, principal: Principal, limit: int = 100, cursor: str | None = None) -> Page[ImageInfo]:
        """One page, by digest; who uses each are the host's environments and the caller's own."""
        if not 1 <= limit <= MOST_ROWS:
            raise InvalidRequest(f"limit must be between 1 and {MOST_ROWS:,}")
        hosts = self._installed()
        after = "" if cursor is None else _read_cursor(cursor)
        digests = sorted({each.digest for each in hosts.values() if each.digest > after})
        users = await self._find_users(principal, hosts)
        infos = await asyncio.to_thread(lambda: [_describe(hosts, digest, users) for digest in digests[:limit]])
        return Page(infos, cursor_to(digests[limit - 1].encode()) if len(digests) > limit else None)

    async def get(self, principal: Principal, image: str) -> ImageDetails:
        """One with its packages, by its digest or by the name of an environment; raises UnknownEnvironment."""
        hosts, found = self._installed(), self._find(image)
        users = await self._find_users(principal, hosts)
        info = await asyncio.to_thread(_describe, hosts, found.digest, users)
        return ImageDetails(info, [describe_package(each) for each in await self._packages.of(found)])

    async def get_sbom(self, image: str) -> dict[str, Any]:
        """Its software bill of materials; raises UnknownEnvironment."""
        found = self._find(image)
        known = await asyncio.to_thread(contents.read, found)
        if known is None:
            raise UnknownEnvironment(
                f"what is in the image {found.image} was not kept: its operator runs `sandcell environments build`"
            )
        return contents.make_sbom(found, known)

    def _find(self, image: str) -> Environment:
        hosts = self._installed()
        found = hosts.get(image) or next((each for each in hosts.values() if each.digest == image), None)
        if found is None:
            raise UnknownEnvironment(
                f"there is no image {image[:LONGEST_SHOWN]!r}; there are: {', '.join(sorted(hosts))}"
            )
        return found

    async def _find_users(self, principal: Principal, hosts: Mapping[str, Environment]) -> Users:
        """By digest, the ids of the environments made from it."""
        users: dict[str, list[str]] = {}
        for name in sorted(hosts):
            users.setdefault(hosts[name].digest, []).append(name)
        cursor: str | None = None
        while True:
            after = cursor
            rows, cursor = await self._database.run(
                lambda c, after=after: environments.list_of(c, principal.id, MOST_ROWS, after)  # type: ignore[misc]
            )
            for row in rows:
                if row.image in hosts and row.build is None:  # with packages it has an image of its own
                    users[hosts[row.image].digest].append(row.id)
            if cursor is None:
                return users


def _read_cursor(cursor: str) -> str:
    digest = place_in(cursor).decode("ascii", "replace")
    if not re.fullmatch(r"sha256:[0-9a-f]{1,64}", digest):
        raise nonsense()
    return digest


def _describe(hosts: Mapping[str, Environment], digest: str, users: Users) -> ImageInfo:
    environment = next(hosts[name] for name in sorted(hosts) if hosts[name].digest == digest)
    info = ImageInfo(
        digest=digest,
        name=environment.image or environment.name,
        description=environment.description,
        environments=users.get(digest, []),
    )
    known = contents.read(environment)
    if known is not None:
        info.system, info.python_version, info.size_bytes = known.system, known.python_version, known.bytes
        info.package_count, info.languages = len(known.packages), [*known.kernels]
        info.notes = [*known.notes]
        info.built_at = timestamp(datetime.datetime.fromtimestamp(known.built_at, datetime.UTC))
    return info
