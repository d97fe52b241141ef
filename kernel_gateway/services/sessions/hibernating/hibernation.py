"""Sessions that give up their sandbox and go on: their variables and files are in the store until somebody wakes them.

In this order, each step durable before the next: a row that names the snapshot, the snapshot, the files, an image of
the sandbox's processes where its runtime can make one, then the session's row, which says HIBERNATED; the sandbox goes
last, or with an image all of it but its disk. What fails or is killed before that row leaves the session READY, in the
sandbox that it has; a failure of the image alone changes nothing but that there is none. `waking.py` has the way back.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from typing import Final

import structlog
from msgspec.structs import replace as replace_report
from sqlalchemy import Connection

from kernel_gateway.errors import GatewayError, QuotaReached, SessionBusy, SessionTerminated, translated
from kernel_gateway.identity.principal import Principal
from kernel_gateway.services.admission.readiness import Readiness
from kernel_gateway.services.clock import rfc3339
from kernel_gateway.services.mirroring.snapshots import Put
from kernel_gateway.services.sessions.hibernating.live_quota import MEGABYTE, require_hibernated_place
from kernel_gateway.services.sessions.hibernating.waking import HIBERNATED, Waking
from kernel_gateway.services.sessions.live_session import LiveSession
from kernel_gateway.services.sessions.registry import Registry
from kernel_gateway.storage import hibernations, sessions
from kernel_gateway.storage.hibernations import HibernationRow
from kernels.cancelling import cancel_all
from kernels.environment import Environment
from kernels.errors import KernelsError
from kernels.execution import kept_variables
from kernels.sandbox import PagedOut
from kernels.sandboxed.sandboxed_kernel import SandboxedKernel
from sandcell.models.sessions import HibernationReport, KeptVariable, Session
from workspace_sync import Mirror

log = structlog.get_logger(__name__)
UNUSED_SECONDS: Final = 2.0
"""How long it may look as if a command ran before a session is said to be at work."""
POLL_SECONDS: Final = 0.05
CHECK_SECONDS: Final = 1.0
"""Between two looks at which sessions are idle."""
AT_ONCE: Final = 4
"""Sessions that give up their sandboxes at the same time because nobody uses them."""
RETRY_SECONDS: Final = 300.0
"""After which one is tried again that could not be hibernated: the store may be back, a task over."""
MOST_TOLD: Final = 100
"""Variables in a report, those that are lost first."""
OUTSIDE: Final = "files outside /workspace and the home directory, and packages installed there"
CONTEXTS: Final = "names of contexts besides the default one"
OTHERS: Final = "what kernels for other languages hold"


class Hibernation:
    """`hibernate` and `resume` for callers; `begin` for a session that has been idle, or whose time is over."""

    def __init__(self, waking: Waking, readiness: Readiness, registry: Registry) -> None:
        self._settings, self._clock, self._database = waking.settings, waking.clock, waking.database
        self._snapshots, self._record, self._background = waking.snapshots, waking.record, waking.background
        self._environments, self._carried = waking.environments, waking.carried
        self._readiness = readiness
        self._registry = registry

    async def hibernate(self, principal: Principal, session_id: str) -> Session:
        """Give up the session's sandbox; the answer says what is kept. One that is hibernated stays as it is.

        Raises NotFound, SessionTerminated, SessionBusy while anything is under way in it, QuotaReached,
        SandboxUnavailable, StoreUnavailable, NoSpace: then it is READY as before.
        """
        self._readiness.require_accepting()
        live = await self._registry.require(principal, session_id)
        if not live.hibernated:
            require_idle(live)
            await live.sandbox.ready()  # one that lost its sandbox gets its files and variables first
            await self.begin(live)
        return live.describe()

    async def resume(self, principal: Principal, session_id: str) -> Session:
        """Wake a session and give it its variables, as its next use does; one that is READY stays as it is."""
        self._readiness.require_accepting()
        live = await self._registry.require(principal, session_id)
        with translated(), live.in_use():
            kernel = await live.sandbox.ready()
            await kernel.ready()
            await live.variables.restore(kernel)
        await live.sandbox.meter.measure()
        return live.describe()

    async def run(self) -> None:
        """Look again and again for sessions that nobody uses; a look that fails is logged and the next one comes."""
        while True:
            await self._clock.sleep(CHECK_SECONDS)
            try:
                await self.look()
            except Exception as error:
                log.error("hibernation_failed", exc_info=error)

    async def look(self) -> None:
        """Hibernate those that have been idle for as long as their environment says, a few at once."""
        turns = asyncio.Semaphore(AT_ONCE)

        async def hibernate(live: LiveSession) -> None:
            async with turns:
                await self._try(live)

        await asyncio.gather(*[hibernate(live) for live in self._registry if await self._is_due(live)])

    async def _is_due(self, live: LiveSession) -> bool:
        if live.hibernate_seconds is None:
            try:
                environment = await self._environments.of_session(live.row.environment)
            except GatewayError:  # the host has it no more, or the database does not answer
                return False
            own = environment.hibernate_seconds
            live.hibernate_seconds = self._settings.hibernate_seconds if own is None else own
        return self._may_idle(live)

    def _may_idle(self, live: LiveSession) -> bool:
        seconds, now = live.hibernate_seconds or 0, self._clock.now()
        if not seconds or live.last_activity + seconds > now or live.hibernates_not_before > now:
            return False
        if live.hibernated or live.ending is not None or live.row.record.keep_awake:
            return False
        return live.sandbox.live_generation is not None and find_obstacle(live) is None

    async def _try(self, live: LiveSession) -> None:
        """What keeps one from it keeps no other; it is tried again a while later."""
        if not self._may_idle(live):
            return
        try:
            await self.begin(live, unless_used=True)
        except GatewayError as error:
            live.hibernates_not_before = self._clock.now() + RETRY_SECONDS
            log.warning("session_not_hibernated", session=live.id, error=error.code, why=error.message)

    async def begin(self, live: LiveSession, *, unless_used: bool = False) -> None:
        """Hibernate one, or wait for the hibernation under way; with `unless_used` a use meanwhile ends it. Raises."""
        if live.hibernating is None or live.hibernating.done():
            work = self._hibernate(live, unless_used=unless_used)
            live.hibernating = self._background.spawn(work, f"hibernation of {live.id}")
        await asyncio.shield(live.hibernating)

    async def _hibernate(self, live: LiveSession, *, unless_used: bool) -> None:
        environment = await self._environments.of_session(live.row.environment)
        with translated():
            await live.sandbox.leave(HIBERNATED, partial(self._keep, live, environment, unless_used=unless_used))
        if live.sandbox.saved is None:
            live.variables.leave()
        log.info("session_hibernated", session=live.id, principal=live.row.principal_id)

    async def _keep(
        self, live: LiveSession, environment: Environment, kernel: SandboxedKernel, mirror: Mirror, *, unless_used: bool
    ) -> bool:
        """While nobody gets at the kernel: all that has to be durable before the sandbox may go.

        Says whether its processes are saved.
        """
        most = find_most_bytes(live, environment)
        require_idle(live)
        await cancel_all(live.watches)  # one that is forgotten would keep it from hibernating for good
        kept = await write_down(live, kernel, most)
        begun = HibernationRow(str(uuid.uuid4()), live.id, "begun", self._clock.now(), executions=live.executions)
        await self._database.run(lambda c: hibernations.put(c, begun))
        try:
            put = await self._snapshots.put(kernel.guest, begun.name, most)
            await mirror.flush(self._settings.flush_deadline_seconds, final=True)
            if unless_used:
                require_idle(live)
            live.require_live()
            now = self._clock.now()
            until = now + self._settings.state_ttl_seconds
            report = build_report(now, until, put.size, kept, list_lost(live, environment, put))
            begun = replace(begun, since=now, size_bytes=put.size, report=report)
            if kernel.info.saved_whole:  # whatever ends this process then, a sandbox that is lost by it costs no more
                begun = replace(begun, state="saving")
                await self._database.run(lambda c: hibernations.put(c, begun))
        except BaseException:
            self.give_up(begun)
            raise
        return await self._finish(live, kernel, begun, report)

    async def _finish(
        self, live: LiveSession, kernel: SandboxedKernel, begun: HibernationRow, report: HibernationReport
    ) -> bool:
        """Once the store has all: save the processes, too, and say that it is so. A use from here on waits."""
        saved = await kernel.save()
        try:
            if saved.moved_bytes:
                with_image = replace_report(report, kept_as="processes", image_bytes=saved.moved_bytes)
                try:
                    await self._store(live, begun, with_image)
                    return True
                except QuotaReached as error:  # without the image there may be room
                    saved = PagedOut(0, error.message)
            await self._store(live, begun, replace_report(report, processes_lost=saved.why or None))
            return False
        except BaseException:
            if await _runs_on(live, kernel):
                self.give_up(begun)
            else:  # lost as it was to go on: its successor gets what the store has
                live.snapshot = begun
            raise

    async def _store(self, live: LiveSession, begun: HibernationRow, report: HibernationReport) -> None:
        """The step that makes it so: from here on the session is HIBERNATED, whatever becomes of this process."""
        live.follow_clock()
        now = self._clock.now()
        until = now + self._settings.state_ttl_seconds
        report = replace_report(report, since=rfc3339(now), until=rfc3339(until))
        left = live.row.expires - now
        left = left if left > 0 else float(live.row.timeout_seconds)  # it hibernates because its time was over
        size = report.size_bytes + report.image_bytes
        snapshot = replace(begun, state="kept", since=now, size_bytes=size, left_seconds=left, report=report)
        await live.sandbox.meter.measure()
        row = replace(
            live.row,
            status="HIBERNATED",
            generation=live.sandbox.generation,
            last_activity=live.last_activity,
            executions=live.executions,
            expires=until,
            record=live.build_record(),
        )

        def store(connection: Connection) -> None:
            size = snapshot.size_bytes
            require_hibernated_place(connection, self._settings, self._carried, row.principal_id, size)
            if not sessions.change_status(connection, row):
                raise SessionTerminated("the session has ended", session_id=row.id)
            hibernations.put(connection, snapshot)

        await self._record.note(live, "hibernated", f"**Session hibernated** until {report.until}.", store)
        live.row, live.snapshot, live.snapshot_laid = row, snapshot, None
        live.time_changed()
        live.news.append("hibernated", {"until": report.until})

    def give_up(self, begun: HibernationRow) -> None:
        """Nobody is to have what was begun; the sweep removes it. Returns at once."""
        self._background.spawn(self._give_up(begun), f"end of hibernation {begun.name}")

    async def _give_up(self, begun: HibernationRow) -> None:
        try:
            await self._database.run(lambda c: hibernations.spend_if_begun(c, begun.id))
        except GatewayError as error:  # the next start of the service does
            log.warning("hibernation_not_given_up", session=begun.session_id, error=error.code)


async def _runs_on(live: LiveSession, kernel: SandboxedKernel) -> bool:
    """Whether the sandbox of a session that is not to hibernate after all goes on, once its processes were saved."""
    if not kernel.info.saved_whole:
        return True
    try:
        await kernel.residence.awake()
        await kernel.guest.runs_commands()  # it answers
    except (KernelsError, OSError) as error:
        log.error("processes_not_restored", session=live.id, error=str(error))
        return False
    return True


async def _wait_unused(live: LiveSession, kernel: SandboxedKernel) -> None:
    """Raises SessionBusy; a call of the service's own that measures something, or the like, is over by then."""
    try:
        async with asyncio.timeout(UNUSED_SECONDS):
            while await kernel.is_in_use():  # noqa: ASYNC110 - it is asked of the sandbox
                await asyncio.sleep(POLL_SECONDS)
    except TimeoutError:
        raise _busy("a command, a task or a program runs in it, or a client follows a directory", live) from None


async def write_down(live: LiveSession, kernel: SandboxedKernel, most_bytes: int) -> list[kept_variables.KeptVariable]:
    """Called while nobody gets at the kernel: have its variables in files of the sandbox. Raises SessionBusy."""
    require_idle(live)
    await kernel.residence.awake()
    await kernel.ready()
    await _wait_unused(live, kernel)
    return await live.variables.keep_now(kernel, most_bytes)


def find_most_bytes(live: LiveSession, environment: Environment) -> int:
    """How much of its variables is kept."""
    return (live.row.record.keep_variables_mb or environment.keep_variables_mb) * MEGABYTE


def build_report(
    at: float, until: float, size_bytes: int, kept: Iterable[kept_variables.KeptVariable], lost: list[str]
) -> HibernationReport:
    """What is said of variables that were written down, those that are lost first."""
    return HibernationReport(rfc3339(at), rfc3339(until), size_bytes, *list_told(kept), lost)


def list_told(kept: Iterable[kept_variables.KeptVariable]) -> tuple[list[KeptVariable], int]:
    """Those that a report names, and how many more there are."""
    told = [KeptVariable(each.name, each.outcome, each.why or None) for each in kept]
    told.sort(key=lambda each: each.outcome == "kept")
    return told[:MOST_TOLD], max(len(told) - MOST_TOLD, 0)


def list_lost(live: LiveSession, environment: Environment, put: Put) -> list[str]:
    """What is not kept besides variables, so that it is told before it is gone."""
    lost = [] if environment.keep_packages else [OUTSIDE]
    if put.without_home is not None:
        lost.append(f"files of the home directory: {put.without_home}")
    if live.surroundings is not None and live.surroundings.contexts:
        lost.append(CONTEXTS)
    return [*lost, OTHERS]


def find_obstacle(live: LiveSession) -> str | None:
    """Why a session is not to give up its sandbox now, as far as this process knows; None when it may."""
    if live.start_task is not None and not live.start_task.done():
        return "it is being started"
    if live.busy or live.looking:
        return "something runs or waits in it"
    if live.held is not None:
        return f"{live.held.holder} has it to themselves"
    if live.audience is not None and live.audience.connections:
        return "a client is attached to it"
    return None


def require_idle(live: LiveSession) -> None:
    """Raises SessionBusy."""
    why = find_obstacle(live)
    if why is not None:
        raise _busy(why, live)


def _busy(why: str, live: LiveSession) -> SessionBusy:
    return SessionBusy(f"the session is not at rest: {why}", session_id=live.id)
