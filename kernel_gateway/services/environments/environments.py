"""The environments there are for a principal: the host's, which are everybody's, and those that the principal made.

Sessions and agents refer to one by its id, which for the host's is the name. `find` takes what a caller wrote,
`exactly` what was stored; the two differ where a principal's own name is that of a host's environment.
"""

from __future__ import annotations

import base64
import binascii
import dataclasses
from collections.abc import Callable, Mapping, Sequence

from sqlalchemy import Connection
from sqlalchemy.exc import IntegrityError

from kernel_gateway.environments_file import DeclaredRole
from kernel_gateway.errors import (
    Conflict,
    EnvironmentUnavailable,
    Forbidden,
    HasDependents,
    InvalidRequest,
    QuotaReached,
    UnknownEnvironment,
)
from kernel_gateway.identity.principal import Principal
from kernel_gateway.services.clock import Clock
from kernel_gateway.services.environments import custom
from kernel_gateway.services.environments.info import info_of_host, info_of_made
from kernel_gateway.settings import Settings
from kernel_gateway.storage import agents, environments
from kernel_gateway.storage.columns import MOST_ROWS
from kernel_gateway.storage.database import Database
from kernel_gateway.storage.environments import EnvironmentRow
from kernels.environment import Environment
from kernels.oci.recipe import recipes
from sandcell.models.environments import ChangeTags, CreateEnvironment, EnvironmentInfo, EnvironmentKind, PoolInfo
from sandcell.models.model import Page

SHOWN = 5
"""How many agents and sessions a refusal's message names; its details name more."""
LONGEST_SHOWN = 100
HOSTS = "host:"
"""How the cursor of a page begins that ended among the host's environments."""


class Environments:
    """`installed` is asked every time, so a newly built environment is there at once.

    `on_made` and `on_deleted` get those whose image is to be built, and all that are not there any more; `read_log`
    says what the build of one has printed so far.
    """

    def __init__(
        self,
        installed: Callable[[], Mapping[str, Environment]],
        settings: Settings,
        database: Database,
        clock: Clock,
        roles: Sequence[DeclaredRole] = (),
        *,
        describe_pool: Callable[[str], PoolInfo | None] = lambda _name: None,
        find_layer: custom.FindLayer = custom.find_none,
        read_log: Callable[[str], str] = lambda _id: "",
        on_made: Callable[[EnvironmentRow], None] = lambda _row: None,
        on_deleted: Callable[[EnvironmentRow], None] = lambda _row: None,
    ) -> None:
        self._installed = installed
        self._settings = settings
        self._database = database
        self._clock = clock
        self._roles = roles
        self._describe_pool = describe_pool
        self._find_layer = find_layer
        self._read_log = read_log
        self._on_made = on_made
        self._on_deleted = on_deleted

    async def find(self, principal_id: str, name: str) -> Environment:
        """The environment of this id, the principal's own of this name, else the host's; its `name` is the id.

        Raises UnknownEnvironment, naming those there are, and EnvironmentUnavailable.
        """
        row = await self._row(principal_id, name)
        return self._hosts(name) if row is None else self._build(row)

    async def exactly(self, principal_id: str, environment_id: str) -> Environment:
        """The environment that a session of the principal was started from; raises as `find` does."""
        if custom.ID.fullmatch(environment_id):
            row = await self._database.run(lambda c: environments.find(c, principal_id, environment_id))
            if row is not None:
                return self._build(row)
        return self._hosts(environment_id)

    async def of_session(self, environment_id: str) -> Environment:
        """The environment that a session is made from, by the id in its row; raises as `find` does.

        A session that was handed over has another principal's.
        """
        if custom.ID.fullmatch(environment_id):
            row = await self._database.run(lambda c: environments.find_of_anybody(c, environment_id))
            if row is not None:
                return self._build(row)
        return self._hosts(environment_id)

    def hosts(self) -> Mapping[str, Environment]:
        """The environments that are everybody's, by name."""
        return self._installed()

    def has_host(self, name: str) -> bool:
        """Whether the host has an environment of this name."""
        return name in self._installed()

    def find_host(self, info: EnvironmentInfo) -> Environment | None:
        """The host's environment that one is, or is made from, perhaps with more packages, if the host still has it."""
        return self._installed().get(info.image if info.kind == "made" else info.id)

    async def create(self, principal: Principal, body: CreateEnvironment) -> EnvironmentInfo:
        """Make one; raises InvalidRequest, Conflict (the name is taken), QuotaReached, Forbidden.

        One with packages is BUILDING until its image is built, or that has failed.
        """
        hosts = self._installed()
        row = custom.new_row(principal, body, hosts, self._settings, self._clock.now())
        if row.name in hosts:
            raise Conflict(f"the host has an environment {row.name!r}: choose another name", name=row.name)

        def add(connection: Connection) -> None:
            most = self._settings.environments_per_principal
            if environments.count(connection, principal.id) >= most:
                raise QuotaReached(f"you have {most:,} environments, which is the most: delete one", quota=most)
            if row.build is not None:
                self._require_build_quota(connection, principal)
            environments.add(connection, row)

        try:
            await self._database.run(add)
        except IntegrityError:
            raise Conflict(f"you have an environment {row.name!r} already", name=row.name) from None
        if row.build is not None:
            self._on_made(row)
        return self._info(row)

    def _require_build_quota(self, connection: Connection, principal: Principal) -> None:
        most = self._settings.added_images_per_principal
        if environments.count_built(connection, principal.id) >= most:
            raise QuotaReached(
                f"you have {most:,} environments with packages added, which is the most: delete one", quota=most
            )

    async def get(self, principal: Principal, name: str) -> EnvironmentInfo:
        """One by its id or name, with its build's log, for administrators its pool; raises UnknownEnvironment."""
        row = await self._row(principal.id, name)
        if row is not None:
            info = self._info(row)
            if row.build is not None:
                kept = await self._database.run(lambda c: environments.read_log(c, row.id))
                info.build_log = kept or self._read_log(row.id)
            return info
        info = info_of_host(self._hosts(name), self._settings)
        if principal.admin:  # how much others start is no business of theirs
            info.pool = self._describe_pool(name)
        return info

    async def list(
        self, principal: Principal, limit: int = 100, cursor: str | None = None, kind: EnvironmentKind | None = None
    ) -> Page[EnvironmentInfo]:
        """First the host's by name, then the principal's own, oldest first; or one kind of them."""
        if not 1 <= limit <= MOST_ROWS:
            raise InvalidRequest(f"limit must be between 1 and {MOST_ROWS:,}")
        last = _last_host(cursor)
        page: Page[EnvironmentInfo] = Page([])
        if kind != "made" and (cursor is None or last is not None):
            hosts = self._installed()
            names = sorted(name for name in hosts if name > (last or ""))
            page.items = [info_of_host(hosts[name], self._settings) for name in names[:limit]]
            if len(names) > limit or (kind is None and len(names) == limit):
                page.next_cursor = _after_host(names[limit - 1])
                return page
        if kind != "host":
            room, place = limit - len(page.items), cursor if last is None else None
            rows, page.next_cursor = await self._database.run(
                lambda c: environments.list_of(c, principal.id, room, place)
            )
            page.items += self._infos(rows)
        return page

    async def delete(self, principal: Principal, name: str) -> EnvironmentInfo:
        """Delete one of the principal's own; raises HasDependents while agents or live sessions need it."""
        row = await self._find_own(principal, name)
        now = self._clock.now()

        def remove(connection: Connection) -> None:
            environments.require(connection, principal.id, row.id)
            attached = agents.find_attached(connection, principal.id, row.id)
            live = agents.live_sessions(connection, principal.id, row.id)
            if attached.count or live.count:
                raise _make_dependents_error(row, attached, live)
            environments.remove(connection, row.id, now)

        await self._database.run(remove)
        self._on_deleted(row)
        info = self._info(dataclasses.replace(row, updated=now))
        info.status, info.failure = "DELETED", ""
        return info

    async def change_tags(self, principal: Principal, name: str, body: ChangeTags) -> EnvironmentInfo:
        """Remove and set tags, all or none; raises InvalidRequest."""
        row = await self._find_own(principal, name)
        now = self._clock.now()

        def change(connection: Connection) -> EnvironmentRow:
            found = environments.require(connection, principal.id, row.id)
            tags = custom.change_tags(found.tags, body.set, body.remove)
            environments.set_tags(connection, row.id, tags, now)
            return dataclasses.replace(found, tags=tags, updated=now)

        return self._info(await self._database.run(change))

    async def reference(self, principal: Principal, name: str) -> str:
        """The id of an environment by its id or name, startable or not; raises UnknownEnvironment."""
        row = await self._row(principal.id, name)
        return self._hosts(name).name if row is None else row.id

    def is_made(self, reference: str) -> bool:
        """Whether an id is that of a made environment: the host's may have names of the same form."""
        return custom.ID.fullmatch(reference) is not None and reference not in self._installed()

    async def _row(self, principal_id: str, name: str) -> EnvironmentRow | None:
        """The principal's own by id or name; None leaves it to the host."""
        if custom.ID.fullmatch(name):
            return await self._database.run(lambda c: environments.find(c, principal_id, name))
        if custom.NAME.fullmatch(name):
            return await self._database.run(lambda c: environments.find_by_name(c, principal_id, name))
        return None

    async def _find_own(self, principal: Principal, name: str) -> EnvironmentRow:
        row = await self._row(principal.id, name)
        if row is None:
            self._hosts(name)
            raise Forbidden(f"{name!r} is the host's environment, which its operator alone changes")
        return row

    def _hosts(self, name: str) -> Environment:
        installed = self._installed()
        if name not in installed:
            known = ", ".join(sorted(installed)) or "none is built: run `sandcell environments build python`"
            built = (
                f". `sandcell environments build {name}`, on the service's host, builds it" if name in recipes() else ""
            )
            raise UnknownEnvironment(
                f"there is no environment {name[:LONGEST_SHOWN]!r}; there are: {known}; and those you made{built}"
            )
        return installed[name]

    def _build(self, row: EnvironmentRow) -> Environment:
        try:
            return custom.build_environment(
                row, self._installed(), self._roles, self._settings, find_layer=self._find_layer
            )
        except custom.Unavailable as error:
            raise EnvironmentUnavailable(f"the environment {row.id} cannot be started: {error}") from None

    def _info(self, row: EnvironmentRow) -> EnvironmentInfo:
        return self._infos([row])[0]

    def _infos(self, rows: Sequence[EnvironmentRow]) -> Sequence[EnvironmentInfo]:
        hosts, infos = self._installed(), []
        for row in rows:
            try:
                stands, failure = (
                    custom.build_environment(row, hosts, self._roles, self._settings, find_layer=self._find_layer),
                    "",
                )
            except custom.Unavailable as error:
                stands, failure = None, str(error)
            infos.append(info_of_made(row, stands, self._settings, failure))
        return infos


def _make_dependents_error(row: EnvironmentRow, attached: agents.Needs, live: agents.Needs) -> HasDependents:
    """The refusal to delete, which names who needs it and what to do."""
    both = (("agent", attached), ("live session", live))
    named = [f"{needs.count:,} {what}{'s' if needs.count > 1 else ''}" for what, needs in both if needs.count]
    who = ", ".join([*attached.names[:SHOWN], *live.names[:SHOWN]])
    more = " and more" if max(attached.count, live.count) > SHOWN else ""
    return HasDependents(
        f"the environment {row.id} is needed by {' and '.join(named)} ({who}{more}): detach agents, stop sessions",
        dependents={"agents": attached.names, "sessions": live.names},
    )


def _after_host(name: str) -> str:
    return base64.urlsafe_b64encode(f"{HOSTS}{name}".encode()).decode()


def _last_host(cursor: str | None) -> str | None:
    """The host's environment that the page before ended with; None for any other cursor."""
    try:
        text = base64.urlsafe_b64decode((cursor or "").encode()).decode()
    except (ValueError, binascii.Error):
        return None
    return text.removeprefix(HOSTS) if text.startswith(HOSTS) else None
