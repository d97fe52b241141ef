"""Puts live sessions together: the session itself, its sandbox, its worker, what listens to its late output.

The parts of one session know each other: the worker and late outputs the session, the session its sandbox. They are
joined here and nowhere else. What happens to the sandbox by itself is written down by `SessionEvents`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, cast

from kernel_gateway.services.admission.dead_sandboxes import DeadSandboxes
from kernel_gateway.services.admission.fair_shares import FairShares
from kernel_gateway.services.admission.memory_room import MemoryRoom
from kernel_gateway.services.background import Background
from kernel_gateway.services.clock import Clock
from kernel_gateway.services.environments.egress import Egress
from kernel_gateway.services.environments.environments import Environments
from kernel_gateway.services.environments.kernelspecs import Kernelspecs
from kernel_gateway.services.environments.packages import Packages
from kernel_gateway.services.mirroring.carried_variables import CarriedVariables
from kernel_gateway.services.mirroring.flushes import Flushes
from kernel_gateway.services.mirroring.mirrors import Mirrors
from kernel_gateway.services.mirroring.spool import Spool
from kernel_gateway.services.records.record import Record
from kernel_gateway.services.results.jobs import FinishedJobs
from kernel_gateway.services.results.kept_outputs import KeptOutputs
from kernel_gateway.services.results.memory_guard import SessionMemory
from kernel_gateway.services.results.redaction import Redaction
from kernel_gateway.services.sessions.events import SessionEvents, store_record
from kernel_gateway.services.sessions.hibernating.waking import Waking
from kernel_gateway.services.sessions.late_outputs import LateOutputs
from kernel_gateway.services.sessions.live_session import LiveSession
from kernel_gateway.services.sessions.registry import Registry
from kernel_gateway.services.sessions.session_sandbox import SandboxEvent, SessionSandbox
from kernel_gateway.services.sessions.session_variables import SessionVariables
from kernel_gateway.services.sessions.worker import Worker
from kernel_gateway.settings import Settings
from kernel_gateway.storage import executions
from kernel_gateway.storage.database import Database
from kernel_gateway.storage.sessions import SessionRow
from kernels.sandbox import SandboxRuntime
from kernels.sandboxed.kernel_events import KernelConnected
from kernels.sandboxed.kernel_launcher import KernelLauncher

if TYPE_CHECKING:
    from sandcell.models.sessions import KeepVariables


class SandboxBuilder:
    """`build` makes a session's side of its sandbox: where it comes from, what it reaches, where its files go."""

    def __init__(
        self,
        *,
        settings: Settings,
        runtime: SandboxRuntime,
        launcher: KernelLauncher,
        environments: Environments,
        egress: Egress,
        mirrors: Mirrors,
        spool: Spool,
        starting: FairShares,
        memory_room: MemoryRoom,
        dead_sandboxes: DeadSandboxes,
        background: Background,
        packages: Packages,
        waking: Waking,
        carried: CarriedVariables,
    ) -> None:
        self._settings = settings
        self._runtime = runtime
        self._launcher = launcher
        self._environments = environments
        self._egress = egress
        self._mirrors = mirrors
        self._spool = spool
        self._starting = starting
        self._memory_room = memory_room
        self._dead_sandboxes = dead_sandboxes
        self._background = background
        self._packages = packages
        self._waking = waking
        self._carried = carried

    def build(self, live: LiveSession, database: Database, events: SessionEvents) -> SessionSandbox:
        """Nothing of it runs before its first use."""
        row, find = live.row, partial(self._environments.of_session, live.row.environment)
        return SessionSandbox(
            row,
            settings=self._settings,
            runtime=self._runtime,
            launcher=self._launcher,
            mirrors=self._mirrors,
            spool=self._spool,
            starting=self._starting,
            memory_room=self._memory_room,
            background=self._background,
            dead_sandboxes=self._dead_sandboxes,
            find_environment=find,
            egress_gateway=self._egress.egress_gateway(row, find),
            flushes=Flushes(
                row.sync,
                self._settings.flush_deadline_seconds,
                row.record.sync.durable,
                find_mirror=lambda: live.sandbox.mirror,
                on_durable=partial(store_record, database, live),
            ),
            list_heard=lambda: database.run(lambda c: executions.list_heard(c, live.id)),
            may_launch=partial(self._waking.may_launch, live),
            on_created=partial(self._waking.note_created, live),
            on_launched=partial(self._waking.note_launched, live),
            on_lost=partial(_carry, live),
            on_event=partial(self._handle, live, events),
        )

    def build_memory(self, live: LiveSession) -> SessionMemory:
        """What acts before the memory of its sandboxes runs out."""
        find = partial(self._environments.of_session, live.row.environment)
        return SessionMemory(live.id, find_environment=find, background=self._background, say=live.say)

    def build_variables(self, live: LiveSession, events: SessionEvents) -> SessionVariables:
        """What keeps variables for the kernel after the present one."""
        find = partial(self._environments.of_session, live.row.environment)
        note = partial(events.note_variables, live)
        return SessionVariables(
            live,
            default=cast("KeepVariables", self._settings.keep_variables),
            find_environment=find,
            background=self._background,
            elsewhere=self._waking,
            carried=self._carried,
            note=note,
        )

    def _handle(self, live: LiveSession, events: SessionEvents, event: SandboxEvent) -> None:
        events.handle(live, event)
        kernel = live.sandbox.kernel
        if isinstance(event, KernelConnected) and kernel is not None and live.sandbox.egress_gateway.misses_index:
            self._background.spawn(self._packages.say_elsewhere(kernel.guest), f"packages {live.id}")


async def _carry(live: LiveSession, sandbox_id: str, unread: str) -> None:
    await live.variables.carry(sandbox_id, unread)  # which is not there yet when its sandbox is built


class SessionBuilder:
    """`build` makes one session of a row; starting its sandbox and its tasks is the caller's."""

    def __init__(
        self,
        *,
        settings: Settings,
        clock: Clock,
        database: Database,
        record: Record,
        kept_outputs: KeptOutputs,
        redaction: Redaction,
        finished: FinishedJobs,
        background: Background,
        registry: Registry,
        sandboxes: SandboxBuilder,
        kernelspecs: Kernelspecs,
        keep_checkpoint: Callable[[LiveSession], Awaitable[None]],
    ) -> None:
        self._keep_checkpoint = keep_checkpoint
        self._kernelspecs = kernelspecs
        self._settings = settings
        self._clock = clock
        self._database = database
        self._record = record
        self._kept_outputs = kept_outputs
        self._redaction = redaction
        self._finished = finished
        self._background = background
        self._registry = registry
        self._sandboxes = sandboxes
        self._events = SessionEvents(database, record, finished, background)

    def build(self, row: SessionRow) -> LiveSession:
        """A live session for a row, registered, its sandbox not started."""
        live = LiveSession(row, self._clock)
        live.sandbox = self._sandboxes.build(live, self._database, self._events)
        live.memory = self._sandboxes.build_memory(live)
        live.variables = self._sandboxes.build_variables(live, self._events)
        live.late = LateOutputs(
            settings=self._settings,
            clock=self._clock,
            database=self._database,
            record=self._record,
            redaction=self._redaction,
            finished=self._finished,
            background=self._background,
            live=live,
        )
        live.worker = Worker(
            settings=self._settings,
            clock=self._clock,
            database=self._database,
            record=self._record,
            kept_outputs=self._kept_outputs,
            redaction=self._redaction,
            finished=self._finished,
            background=self._background,
            live=live,
            kernelspecs=self._kernelspecs,
            keep_checkpoint=self._keep_checkpoint,
        )
        self._registry.add(live)
        return live
