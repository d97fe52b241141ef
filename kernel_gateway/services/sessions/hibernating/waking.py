"""How a hibernated session gets a sandbox again: whoever asks for its kernel wakes it, and others wait for that.

The one that it had goes on, if its processes were saved and can. Else the sandbox is one of its environment's warm
pool, if there is one. Its variables are in the store until a kernel has them. They are laid into the new sandbox
before anybody has its kernel; then the session's row says READY. When either fails the sandbox is removed, and the
session still hibernated.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Final

import msgspec
import structlog
from msgspec.structs import replace as replace_record
from sqlalchemy import Connection

from kernel_gateway.errors import Conflict, GatewayError, SessionTerminated, StoreUnavailable, translated
from kernel_gateway.services.admission.dead_sandboxes import DeadSandboxes
from kernel_gateway.services.background import Background
from kernel_gateway.services.clock import Clock
from kernel_gateway.services.environments.environments import Environments
from kernel_gateway.services.mirroring.carried_variables import CarriedVariables
from kernel_gateway.services.mirroring.snapshots import Snapshots
from kernel_gateway.services.pools.pools import Pools
from kernel_gateway.services.records.record import Record
from kernel_gateway.services.sessions.hibernating.live_quota import require_place, wait_for_place
from kernel_gateway.services.sessions.live_session import LiveSession
from kernel_gateway.settings import Settings
from kernel_gateway.storage import hibernations, sessions
from kernel_gateway.storage.database import Database
from kernel_gateway.storage.hibernations import HibernationRow
from kernels.errors import Death, KernelsError
from kernels.execution import kept_variables
from kernels.execution.hub import Hub
from kernels.guest_client.client import GuestClient
from kernels.sandbox import SandboxInfo, SandboxRuntime
from kernels.sandboxed.sandboxed_kernel import SandboxedKernel

log = structlog.get_logger(__name__)
SENDING_BYTES: Final = 2 << 20
"""Of a snapshot on its way into a sandbox: on a busy host each wait for the other side is long."""
HIBERNATED: Final = Death("hibernated", "The session was hibernated, and is woken")


class Waking(msgspec.Struct, frozen=True):
    """What a session's sandbox asks when it is launched, and its variables before they are restored.

    What it stands on is there for `Hibernation`, too.
    """

    settings: Settings
    clock: Clock
    database: Database
    snapshots: Snapshots
    record: Record
    background: Background
    dead_sandboxes: DeadSandboxes
    runtime: SandboxRuntime
    environments: Environments
    pools: Pools
    carried: CarriedVariables

    async def may_launch(self, live: LiveSession) -> None:
        """Called before a sandbox is launched, and reserves a spare one to be used in its place.

        Raises SessionLimit while others have all places, Conflict for a snapshot, what is wrong with the environment.
        """
        if live.is_snapshot:
            raise Conflict(
                "the session is a snapshot, in which nothing runs: begin another from it", session_id=live.id
            )
        if live.hibernated:
            environment = await self.environments.of_session(live.row.environment)
            await wait_for_place(
                lambda: self.database.run(lambda c: self._require_place(c, live)),
                self.dead_sandboxes,
                self.settings.start_deadline_seconds,
            )
            if live.sandbox.saved is not None:
                return
            # Last: whoever is refused holds none.
            live.sandbox.spare = live.sandbox.spare or self.pools.reserve(environment, has_files=True)

    def _require_place(self, connection: Connection, live: LiveSession) -> None:
        require_place(connection, self.settings, live.row.principal_id, self.dead_sandboxes)

    async def note_created(self, live: LiveSession, info: SandboxInfo) -> None:
        """Called while a new sandbox's kernel starts; raises our errors, and the sandbox goes."""
        await self._lay(live, info)

    async def note_launched(self, live: LiveSession, kernel: SandboxedKernel) -> None:
        """Called when a new sandbox's kernel lives and nobody has it yet; raises our errors, and the sandbox goes.

        And when a saved sandbox goes on, which has its variables: it is saved again then.
        """
        if live.sandbox.saved is None:
            await self.lay(live, kernel)
        if live.hibernated:
            await self._wake(live, kernel)

    async def lay(self, live: LiveSession, kernel: SandboxedKernel) -> None:
        """Have the sandbox hold what is kept for its next kernel, if anything is; raises our errors."""
        unlaid = live.snapshot is not None and live.snapshot_laid is not kernel.info
        if unlaid and live.busy and kernel.hub is not None:  # for code, before which they are restored
            self.background.spawn(_prepare(kernel.hub), f"imports of {live.id}")
        await self._lay(live, kernel.info)

    async def _lay(self, live: LiveSession, info: SandboxInfo) -> None:
        snapshot = live.snapshot
        if snapshot is None or live.snapshot_laid is info:
            return
        guest = GuestClient(partial(self.runtime.dial, info.sandbox_id), sending_bytes=SENDING_BYTES)
        try:
            with translated():
                await guest.wait_ready(self.settings.start_deadline_seconds)
            await self.snapshots.lay(guest, snapshot.name)
        except StoreUnavailable as error:
            raise StoreUnavailable(
                f"the session's variables cannot be read now; it stays as it is: {error.message}"
            ) from error
        finally:
            await guest.aclose()
        live.snapshot_laid = info

    async def _wake(self, live: LiveSession, kernel: SandboxedKernel) -> None:
        live.follow_clock()
        generation, goes_on = kernel.generation, live.sandbox.saved is not None
        now, snapshot = self.clock.now(), live.snapshot
        left = snapshot.left_seconds if snapshot is not None else float(live.row.timeout_seconds)
        since = snapshot.since if snapshot is not None else now
        # What it was hibernated in has gone, and this one may have come with an id of its own.
        sandbox_id = "" if live.sandbox.id == live.id else live.sandbox.id
        record = replace_record(live.build_record(), sandbox_id=sandbox_id)
        row = replace(
            live.row,
            status="READY",
            generation=generation,
            last_activity=now,
            expires=now + left,
            record=replace_record(record, slept_seconds=record.slept_seconds + max(now - since, 0.0)),
        )

        def store(connection: Connection) -> None:
            self._require_place(connection, live)
            if not sessions.change_status(connection, row):
                raise SessionTerminated("the session has ended", session_id=row.id)
            if goes_on and snapshot is not None:  # its kernel is never to be given what is older than its own
                hibernations.spend(connection, snapshot.id)

        await self.record.note(live, "woken", _describe(live, goes_on=goes_on), store)
        live.row = row
        if goes_on:
            live.variables.take_up(kernel)
            if snapshot is not None:
                live.snapshot = None
                self.background.spawn(self._remove(snapshot), f"snapshot {snapshot.name}")
        else:
            live.variables.leave()
        live.touch()
        live.stored_activity = live.last_activity
        live.time_changed()
        live.news.append("woken", {"generation": generation})
        log.info("session_woken", session=live.id, generation=generation)

    async def spend(self, live: LiveSession, snapshot: HibernationRow) -> None:
        """The session's kernel has what was kept, or never will: the store need not keep it. Raises our errors."""
        await self.database.run(lambda c: hibernations.spend(c, snapshot.id))
        if live.snapshot is snapshot:
            live.snapshot = None
        live.snapshot_laid = None
        self.background.spawn(self._remove(snapshot), f"snapshot {snapshot.name}")

    async def remove_spent(self) -> None:
        """Remove from the store what nobody is to have any more; called again and again, and when a session ends."""
        for each in await self.database.run(hibernations.list_spent):
            await self._remove(each)

    async def _remove(self, snapshot: HibernationRow) -> None:
        try:
            await self.snapshots.remove(snapshot.name)
            await self.database.run(lambda c: hibernations.forget(c, snapshot.id))
        except GatewayError as error:  # its row is still there: the next round tries again
            log.warning("snapshot_not_removed", session=snapshot.session_id, error=error.code)


def _describe(live: LiveSession, *, goes_on: bool) -> str:
    """The note in the notebook."""
    if goes_on:
        return "**Session woken.** It was hibernated, and goes on with all its processes."
    why = live.sandbox.not_restored
    return "**Session woken.** It was hibernated" + ("." if why is None else f"; {why}.")


async def _prepare(hub: Hub) -> None:
    """It only makes the rest faster."""
    try:
        await kept_variables.prepare(hub)
    except KernelsError as error:
        log.info("imports_not_begun", error=str(error))
