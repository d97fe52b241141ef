"""The sandbox of one session over the session's life: launched, adopted, lost, launched again, given up.

One lock orders these; what runs code or looks at files asks `ready()`, which launches a sandbox when there is none
and waits for its workspace. All sandboxes of a session have one id: the session's own, or that of the first one when it
came from a pool. It has another from when it wakes in one of a pool, or has left one behind that resists its removal:
the session's row says so by when that one is taken on. Each has the next generation and the workspace restored.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
import uuid
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from functools import partial
from typing import Any, TypeAlias, TypeVar

import msgspec
import structlog

from kernel_gateway import metrics
from kernel_gateway.errors import GatewayError, SandboxUnavailable, SessionTerminated, translate
from kernel_gateway.services.admission.dead_sandboxes import DeadSandboxes
from kernel_gateway.services.admission.fair_shares import FairShares
from kernel_gateway.services.admission.memory_room import MemoryRoom
from kernel_gateway.services.background import Background
from kernel_gateway.services.environments.egress import EgressGateway, Find
from kernel_gateway.services.mirroring.flushes import Flushes
from kernel_gateway.services.mirroring.mirrors import Mirrors
from kernel_gateway.services.mirroring.spool import Spool
from kernel_gateway.services.pools.spare_sandbox import SpareSandbox
from kernel_gateway.services.sessions.sandbox_meter import SandboxMeter
from kernel_gateway.services.sessions.sandbox_state import ALIVE, GIVEN_UP, SandboxState, State
from kernel_gateway.services.sessions.workspace_restore import WorkspaceRestore, WorkspaceRestored
from kernel_gateway.settings import Settings
from kernel_gateway.storage.sessions import SessionRow
from kernels.errors import Death, KernelDied, KernelsError
from kernels.execution.runs import Durable
from kernels.guest_client.client import GuestClient
from kernels.sandbox import SandboxInfo, SandboxRuntime, SandboxSpec
from kernels.sandboxed.kernel_events import KernelConnected, KernelEvent, KernelReplaced, SandboxLost
from kernels.sandboxed.kernel_launcher import KernelLauncher
from kernels.sandboxed.sandboxed_kernel import SandboxedKernel
from kernels.sandboxed.workspace_copy import WorkspaceCopy
from sandcell.models.sessions import Memory
from sandcell.models.sync import Restoring, Sync
from workspace_sync import Mirror, RestoreReport
from workspace_sync.directory.changes import Watched
from workspace_sync.errors import WorkspaceSyncError

log = structlog.get_logger(__name__)
DESTROY_SECONDS = 60.0
TRIES = 3
"""How many sandboxes may be lost while one call waits for their workspace."""

T = TypeVar("T")
SandboxEvent: TypeAlias = KernelEvent | WorkspaceRestored
OnLaunched: TypeAlias = Callable[[SandboxedKernel], Awaitable[None]]
Keep: TypeAlias = Callable[[SandboxedKernel, Mirror], Awaitable[T]]
BeginRestore: TypeAlias = Callable[[SandboxInfo], Awaitable[bool]]
"""Lays the workspace out, and says whether all of it is there."""


class _Listener:
    """Passes on the events of one kernel, once it is taken on: what happened before can be seen in the kernel.

    The loss of its sandbox is said only once: who takes the kernel on asks `require_alive`.
    """

    def __init__(self, on_event: Callable[[SandboxedKernel, KernelEvent], None]) -> None:
        self.kernel: SandboxedKernel | None = None
        self._on_event = on_event
        self._death: Death | None = None

    def require_alive(self) -> None:
        """Raises KernelDied when the sandbox is gone already."""
        if self._death is not None:
            raise KernelDied(self._death)

    def __call__(self, event: KernelEvent) -> None:
        if isinstance(event, SandboxLost):
            self._death = event.death
        if self.kernel is not None:
            self._on_event(self.kernel, event)


class SessionSandbox:
    """`on_event` hears of each kernel that takes code and of the end of each, and returns at once.

    A lost sandbox it does not hear of: the next use makes another one, of which it hears. `may_launch` is awaited
    before a sandbox is launched, `on_created` while its kernel starts, unless it is a spare one, `on_launched` before
    anybody has its kernel; when one of them raises there is none. `on_lost` is awaited with the id of a lost one, in
    which nothing runs any more, before its disk goes, and with why that cannot be read, empty where it can.
    """

    promised = False
    """Whether the start of the session has made sure that there is memory for its first launch."""
    saved: SandboxInfo | None = None
    """One that lies on this host's disk with its processes: the next use has them go on."""
    not_restored: str | None = None
    """Why the processes of the last saved one could not go on; of the generation after them."""
    unsaved: str | None = None
    """What to say of files that could not be brought to the store."""
    watched: Watched | None = None
    _info: SandboxInfo | None = None
    """The present sandbox, or the last one."""
    _marked_ready: SandboxInfo | None = None
    """The sandbox whose claim has said that its workspace is whole."""
    _copy: WorkspaceCopy | None = None
    _launching: asyncio.Task[Any] | None = None
    _left_over = False
    """Whether something of the last sandbox may still be there: the next one has the same id."""

    def __init__(
        self,
        row: SessionRow,
        *,
        settings: Settings,
        runtime: SandboxRuntime,
        launcher: KernelLauncher,
        mirrors: Mirrors,
        spool: Spool,
        starting: FairShares,
        memory_room: MemoryRoom,
        background: Background,
        dead_sandboxes: DeadSandboxes,
        find_environment: Find,
        egress_gateway: EgressGateway,
        flushes: Flushes,
        list_heard: Callable[[], Awaitable[Mapping[str, Durable]]],
        may_launch: Callable[[], Awaitable[None]],
        on_created: Callable[[SandboxInfo], Awaitable[None]],
        on_launched: OnLaunched,
        on_lost: Callable[[str, str], Awaitable[None]],
        on_event: Callable[[SandboxEvent], None],
    ) -> None:
        self.id, self.generation = row.sandbox_id, row.generation
        self.egress_gateway = egress_gateway
        self.kernel: SandboxedKernel | None = None
        self.mirror: Mirror | None = None
        self.flushes = flushes
        self.spare: SpareSandbox | None = None
        """One of a pool, reserved for the first launch: `id` is its own."""
        self.meter = SandboxMeter(lambda: self.kernel)
        self._session_id, self._owner, self._workspace_id = row.id, row.principal_id, row.workspace_id
        self._settings, self._runtime, self._launcher, self._mirrors = settings, runtime, launcher, mirrors
        self._spool, self._starting, self._memory_room, self._may_launch = spool, starting, memory_room, may_launch
        self._dead_sandboxes, self._on_launched, self._list_heard = dead_sandboxes, on_launched, list_heard
        self._background, self._find_environment, self._on_event = background, find_environment, on_event
        self._state, self._lock, self._on_created, self._on_lost = SandboxState(), asyncio.Lock(), on_created, on_lost
        self._restore: WorkspaceRestore | None = None
        self._death: Death | None = None
        """Why there is no sandbox any more, until the next one has a kernel: that one is of the next generation."""

    @property
    def state(self) -> str:
        """What there is of a sandbox now, in a word of `State`."""
        return self._state.now.value

    @property
    def live_generation(self) -> int | None:
        """The generation of the kernel that takes code now; None when there is none."""
        return self.kernel.generation if self.kernel is not None and self._is_alive() else None

    @property
    def environment_digest(self) -> str:
        """The image that the present sandbox was made from, or the last one when there is none; empty if not known."""
        return self._info.environment_digest if self._info is not None else ""

    @property
    def on_this_host(self) -> bool:
        """Whether no other gateway reaches its processes: the last that it had, if any, were not in a pod."""
        return self._info is not None and not self._info.workspace_copy

    @property
    def memory(self) -> Memory | None:
        """Where its memory is; None when there is no sandbox."""
        return self.kernel.residence.memory if self.kernel is not None else None

    def _is_alive(self) -> bool:
        return self._state.now in ALIVE

    def _is_in(self, *states: State) -> bool:
        """Asked again after each wait: others change it meanwhile."""
        return self._state.now in states

    @property
    def workspace_ready(self) -> bool:
        """Whether all of its workspace is there; also of one that is lost or given up, until it is cleared away."""
        return self._restore is None or self._restore.complete

    async def ready(self) -> SandboxedKernel:
        """The live kernel, in a new sandbox when there is none, with all of its workspace; raises our errors."""
        for _ in range(TRIES):
            kernel = await self.ensure_started()
            await self.wait_restored()
            if kernel is self.kernel and self._state.now is State.READY:
                return kernel
        raise SandboxUnavailable("the sandbox was lost again and again while its workspace was restored: try again")

    async def wait_restored(self) -> None:
        """Wait for the present sandbox's workspace, or for the sandbox's end; raises our errors."""
        if self._restore is not None and not self._restore.complete:
            await self._restore.done(self._settings.restore_deadline_seconds)

    async def ensure_started(self) -> SandboxedKernel:
        """The live kernel, in a new sandbox when there is none; its files may still be on their way."""
        if self.kernel is not None and self._is_alive():
            return self.kernel
        async with self._lock:
            if self._state.now is State.LOST:
                await self._clear_away()
            if self._state.now in GIVEN_UP:  # before this call, or while it waited
                raise self._make_terminated_error()
            if self.kernel is not None:  # another call has launched it while this one waited for the lock
                return self.kernel
            return await self._launch_next()

    async def _launch_next(self) -> SandboxedKernel:
        """Under the lock: have the one go on that is saved, else launch."""
        if self.saved is not None and (kernel := await self._in_task(self._go_on(self.saved))) is not None:
            return kernel
        death = self._death
        generation = self.generation if death is None else self.generation + 1
        try:
            return await self._in_task(self._launch(generation))
        finally:
            if death is not None and self._death is not death:  # it was taken on, even if this call was cancelled then
                self._on_event(KernelReplaced(self.generation, death))

    async def _in_task(self, work: Coroutine[Any, Any, T]) -> T:
        """In a task of its own so that the session's end can cancel it."""
        self._state.move(State.LAUNCHING)
        self._launching = launching = self._background.spawn(work, f"launch {self._session_id}")
        try:
            return await launching
        except asyncio.CancelledError:
            if self._state.now in GIVEN_UP:
                raise self._make_terminated_error() from None
            raise
        finally:
            self._launching = None
            if self._state.now is State.LAUNCHING:
                self._state.move(State.ABSENT)

    async def _go_on(self, saved: SandboxInfo) -> SandboxedKernel | None:
        """Have a saved sandbox's processes go on; None when they cannot. Raises our errors: then it stays saved."""
        await self._may_launch()
        try:
            async with self._memory_room.start(), self._starting.place(self._owner):
                kernel = await self._adopt(saved, await self._list_heard(), self._on_launched)
        except (KernelsError, OSError) as error:
            log.warning("processes_not_restored", session=self._session_id, error=str(error))
            self.forget_saved(str(error))
            return None
        self.saved = None
        kernel.go_on()  # nothing ran in it
        return kernel

    def forget_saved(self, why: str) -> None:
        """What is saved cannot go on, or is not there: the next `ready()` launches another in its place."""
        if self.saved is not None:
            self.meter.end_sandbox()
            self.leave_behind()
        self.saved, self.not_restored = None, f"its processes could not go on: {why}"
        self._death = Death("hibernated", f"The session was hibernated, and is woken; {self.not_restored}")

    def _make_terminated_error(self) -> SessionTerminated:
        return SessionTerminated("the session has ended", session_id=self._session_id)

    def require_new(self, death: Death) -> None:
        """There is no sandbox any more: the next `ready()` launches one of the next generation."""
        self._death, self._left_over = death, True

    async def adopt(self, info: SandboxInfo, heard: Mapping[str, Durable]) -> None:
        """Take up the sandbox that the process before a restart left running; raises KernelsError, OSError.

        `heard` says how far what its kernels said is durable. What came since waits for who takes up what runs.
        When it fails nothing of the sandbox has been taken on, and its files are still to be saved.
        """
        async with self._lock:
            await self._adopt(info, heard)

    async def _adopt(
        self, info: SandboxInfo, heard: Mapping[str, Durable], on_woken: OnLaunched | None = None
    ) -> SandboxedKernel:
        """Under the lock. `on_woken` is awaited for one that was saved: when it raises, that is saved again or goes."""
        listener = _Listener(self._kernel_event)
        kernel = await self._launcher.adopt(info, listener, heard)
        mirror = self._mirrors.mirror(info, self._workspace_id, self._open_copy(info))
        if self._copy is not None:
            self._copy.go_on()
        try:
            await self.egress_gateway.reopen()
            await self._watch(info, mirror)
            spooled = self._workspace_id in self._spool.waiting()
            if on_woken is not None:
                await on_woken(kernel)
            listener.require_alive()  # nothing waits from here until it is taken on
        except BaseException as error:
            await mirror.aclose()
            await self._close_copy()
            await self.egress_gateway.aclose()
            if on_woken is not None and isinstance(error, GatewayError):  # it is not to be woken now
                kernel.go_on()  # nothing ran in it, and to be saved it has to answer
                again = await kernel.save()
                if not again.moved_bytes:  # nothing of it may run while its session is hibernated
                    self.forget_saved(f"when it could not be woken, they were not saved again: {again.why}")
            await kernel.aclose()
            raise
        if self._is_in(State.LAUNCHING):
            self._state.move(State.RESTORING)
        self._take(kernel, mirror, listener, State.READY)
        if spooled:  # the live files are newer than that copy
            await self._save(mirror)
        return kernel

    async def reopen_egress(self) -> None:
        """Called by the sweep: try again to open what could not be opened when the sandbox was taken up."""
        async with self._lock:
            if self._is_alive() and self.egress_gateway.missing:
                await self.egress_gateway.reopen()

    async def recover_files(self, info: SandboxInfo) -> None:
        """Bring what a dead sandbox left in its workspace to the store, then remove the sandbox."""
        async with self._lock:
            try:
                await self._runtime.reopen(info.sandbox_id)
            except KernelsError as error:  # what lies at its place now would pass for a workspace without any file
                log.error("workspace_not_reopened", session=self._session_id, error=str(error))
                self.unsaved = f"the last changes of the workspace are lost: {error}"
                return await self._clear_away(str(error))
            self._info, self.mirror = info, self._mirrors.mirror(info, self._workspace_id, self._open_copy(info))
            if self._copy is not None:
                self._copy.go_on()
            return await self._clear_away()

    async def lose(self, kernel: SandboxedKernel, death: Death) -> None:
        """The sandbox is gone: save its files and remove what is left of it. The next `ready()` makes another."""
        if self.kernel is kernel and (self._is_alive() or self._is_in(State.LEAVING)):
            self._death = death
            self._state.move(State.LOST)
            log.warning("sandbox_lost", session=self._session_id, cause=death.cause)
        async with self._lock:
            if self._state.now is State.LOST:
                await self._clear_away()

    async def leave(self, why: Death, keep: Keep[bool]) -> None:
        """Give the sandbox up once `keep` has all that is to outlive it; the next `ready()` launches another.

        Or has this one go on, where `keep` says that its processes are saved on its disk.
        Who asks for the kernel meanwhile waits. What `keep` raises is raised: then the sandbox stays.
        """
        async with self._lock:
            saved = await self._hold(keep)
            self.not_restored = None
            if saved and self._is_in(State.LEAVING):
                await self._put_away()
            else:
                await self._clear_away()
                if self._left_over:
                    self.leave_behind()
                self._death = why
            if self._is_in(State.LEAVING):
                self._state.move(State.ABSENT)

    async def _put_away(self) -> None:
        """Under the lock: let go of all that a saved sandbox has but its disk. The store has its files."""
        self.saved, kernel, mirror = self._info, self.kernel, self.mirror
        self.kernel = self.mirror = self.watched = None
        if mirror is not None:
            self.flushes.end(mirror, waits=False)
        await self._let_go(kernel, mirror)
        with contextlib.suppress(KernelsError):  # else it takes mounts until it is woken
            await self._runtime.put_away(self.id)

    def leave_behind(self) -> None:
        """What is left of the last sandbox resists its removal: it is tried again apart, under the id that it has.

        Called when the session has no other one, and its row says that it is hibernated.
        """
        self._dead_sandboxes.remove(self.id, self._owner)
        self.id, self._left_over = str(uuid.uuid4()), False

    async def hold(self, take: Keep[None]) -> None:
        """Have nobody get at the kernel while `take` copies what it has; what that raises is raised."""
        async with self._lock:
            await self._hold(take)
            if self._is_in(State.LEAVING):
                self._state.move(State.READY)

    async def _hold(self, keep: Keep[T]) -> T:
        """Under the lock; it is LEAVING afterwards, unless it was lost or given up meanwhile."""
        kernel, mirror = self.kernel, self.mirror
        if kernel is None or mirror is None or not self._is_in(State.READY):
            raise SandboxUnavailable("the session's sandbox is not ready: try again")
        self._state.move(State.LEAVING)
        try:
            return await keep(kernel, mirror)
        except BaseException:
            if self._is_in(State.LEAVING):
                self._state.move(State.READY)
            raise

    async def give_up(self) -> None:
        """The session ends: nothing runs in the sandbox any more, its files are saved; `remove` removes the rest."""
        self._begin_closing()
        async with self._lock:
            await self._close()
            self._end_closing()

    def remove(self) -> None:
        """Once the session's end is on record: begin to remove what `give_up` has left; returns at once."""
        self._dead_sandboxes.remove(self.id, self._owner)

    async def detach(self) -> None:
        """The service ends and the sandbox stays: save what can be saved by now, close our side."""
        self._begin_closing()
        async with self._lock:
            kernel, mirror, workspace_ready = self.kernel, self.mirror, self.workspace_ready
            self.kernel = self.mirror = None
            if mirror is not None:
                if workspace_ready:
                    with contextlib.suppress(WorkspaceSyncError, TimeoutError):
                        await mirror.flush(self._settings.flush_deadline_seconds)
                self.flushes.note(mirror)
            await self._let_go(kernel, mirror)
            self._end_closing()

    async def _let_go(self, kernel: SandboxedKernel | None, mirror: Mirror | None) -> None:
        """Close our side of a sandbox that stays."""
        await self._discard_spare()
        await self.egress_gateway.aclose()
        await self._stop_restore()
        if mirror is not None:
            await mirror.aclose()
        await self._close_copy()
        if kernel is not None:
            await kernel.aclose()

    def _begin_closing(self) -> None:
        """From here on no call launches a sandbox. An end that failed is begun again, and finds this done."""
        if self._state.now not in GIVEN_UP:
            self._state.move(State.CLOSING)
        if self._launching is not None:
            self._launching.cancel()

    def _end_closing(self) -> None:
        if self._state.now is State.CLOSING:
            self._state.move(State.CLOSED)

    def sync(self) -> Sync:
        """How far the workspace's mirror is; while a sandbox is made its files are on their way as well."""
        sync = self.flushes.sync()
        return sync if self._launching is None else msgspec.structs.replace(sync, restoring=Restoring())

    async def _launch(self, generation: int) -> SandboxedKernel:
        """With the sandbox of a pool when there is one for this session; when that one fails, with another."""
        await self._may_launch()
        spare, self.spare = self.spare, None
        if spare is not None:  # made of the environment as it was when this start looked it up
            self.id = spare.id
            spec = SandboxSpec(self.id, spare.environment, generation)
            try:
                return await self._start(spec, partial(self._hand_over, spare, generation))
            except SandboxUnavailable as error:
                log.warning("pool_sandbox_failed", session=self._session_id, error=error.message)
                self._left_over = True
        spec = SandboxSpec(self.id, await self._find_environment(), generation)
        return await self._start(spec, partial(self._launch_new, spec))

    async def _launch_new(self, spec: SandboxSpec, begin_restore: BeginRestore, listener: _Listener) -> SandboxedKernel:
        if self._left_over:
            await self._runtime.destroy(self.id)
            self._left_over = False
        promised, self.promised = self.promised, False

        async def prepare(info: SandboxInfo) -> None:
            await begin_restore(info)
            await self._on_created(info)

        began = time.monotonic()
        async with (
            contextlib.nullcontext() if promised else self._memory_room.start(),
            self._starting.place(self._owner),
            asyncio.timeout(self._launch_seconds),
        ):
            metrics.note_phase("place", began)
            with metrics.time_phase("launch"):
                return await self._launcher.launch(spec, before_first_code=prepare, on_event=listener)

    async def _hand_over(
        self, spare: SpareSandbox, generation: int, begin_restore: BeginRestore, listener: _Listener
    ) -> SandboxedKernel:
        """Without a place among the starts: nearly all of this one is done. Leaves nothing behind when it fails."""
        try:
            kernel = spare.hand_over(listener)
            with metrics.time_phase("claim"):
                async with asyncio.timeout(self._launch_seconds):
                    laid = await begin_restore(kernel.info)
                    used = await self._runtime.claim(kernel.info.sandbox_id, workspace_ready=laid)
                    if generation != kernel.generation:
                        await kernel.renumber(generation)
        except BaseException:
            await asyncio.shield(spare.discard())
            raise
        self._marked_ready = kernel.info if laid else None
        self.meter.note(used)
        return kernel

    @property
    def _launch_seconds(self) -> float:
        return self._settings.start_deadline_seconds + self._settings.restore_deadline_seconds

    async def _discard_spare(self) -> None:
        spare, self.spare = self.spare, None
        if spare is not None:
            await spare.discard()

    async def _start(
        self, spec: SandboxSpec, launch: Callable[[BeginRestore, _Listener], Awaitable[SandboxedKernel]]
    ) -> SandboxedKernel:
        begun: list[WorkspaceRestore] = []

        async def begin_restore(info: SandboxInfo) -> bool:
            await self.egress_gateway.open(spec.environment, info.sandbox_id)
            # What waits on this host is newer than what the store has: it goes there before the restore reads it.
            if await self._spool.deliver(self._workspace_id):
                self.unsaved = None
            mirror = self._mirrors.mirror(info, self._workspace_id, self._open_copy(info))
            began = time.monotonic()

            async def finish(report: RestoreReport) -> None:
                await self._finish_restore(info, mirror, report)
                metrics.note_phase("restore", began)

            begun.append(WorkspaceRestore(self._background, mirror, finish))
            return await begun[0].begin()

        listener, kernel = _Listener(self._kernel_event), None
        try:
            kernel = await launch(begin_restore, listener)
            await self._on_launched(kernel)
            listener.require_alive()  # nothing waits from here until it is taken on
        except BaseException as error:
            await self.egress_gateway.aclose()
            for each in begun:
                await each.aclose()
            await self._close_copy()
            if kernel is not None:  # it was open, and then its sandbox was lost
                await kernel.aclose()
                await self._destroy()
            raise translate(error) if isinstance(error, Exception) else error from None
        self._restore = begun[0]
        self._take(kernel, self._restore.mirror, listener, State.RESTORING)
        self._restore.go_on()
        return kernel

    async def _finish_restore(self, info: SandboxInfo, mirror: Mirror, report: RestoreReport) -> None:
        """All files of a new sandbox are there. Nothing waits between the last line and `complete` of the restore."""
        if self._copy is not None:
            await self._copy.push()
        await self._watch(info, mirror)
        if self._marked_ready is not info:
            await self._runtime.mark_workspace_ready(info.sandbox_id)
        self._on_event(WorkspaceRestored(report))
        if self._state.now is State.RESTORING:  # it may have been lost or given up meanwhile
            self._state.move(State.READY)

    async def _watch(self, info: SandboxInfo, mirror: Mirror) -> None:
        """Look at the files as they are before the next code runs, so that what it changes can be seen."""
        self.watched = Watched(info.workspace_directory, tree=mirror.tree)
        await asyncio.to_thread(self.watched.look)

    def _open_copy(self, info: SandboxInfo) -> WorkspaceCopy | None:
        """Where the sandbox's files are on another machine, what brings them here."""
        if info.workspace_copy:
            guest = GuestClient(partial(self._runtime.dial, info.sandbox_id))
            self._copy = WorkspaceCopy(guest, info.workspace_directory, self._settings.storage_mb_max << 20)
        return self._copy

    async def bring_files(self) -> None:
        """Have the copy of the workspace, where there is one, up to date."""
        if self._copy is not None:
            with contextlib.suppress(KernelsError, OSError, TimeoutError):  # what comes next says so
                async with asyncio.timeout(self._settings.flush_deadline_seconds):
                    await self._copy.pull()

    async def _finish_copy(self) -> str:
        """The files of a sandbox that ends, while it still has them; why they are not here, else an empty text."""
        if self._copy is None:
            return ""
        behind = await self._copy.finish(self._settings.flush_deadline_seconds)
        if behind:
            log.warning("workspace_not_fetched", session=self._session_id, error=behind)
        return behind

    async def _close_copy(self) -> None:
        copy, self._copy = self._copy, None
        if copy is not None:
            await copy.aclose()

    def _take(self, kernel: SandboxedKernel, mirror: Mirror, listener: _Listener, state: State) -> None:
        self.kernel, self.mirror, self._info = kernel, mirror, kernel.info
        self.generation = max(self.generation, kernel.generation)
        self._death = None
        if self._state.now not in GIVEN_UP:  # else `give_up` waits for the lock to close it
            self._state.move(state)
        listener.kernel = kernel
        if kernel.hub is not None:
            self._on_event(KernelConnected(kernel.hub))

    def _kernel_event(self, kernel: SandboxedKernel, event: KernelEvent) -> None:
        if isinstance(event, SandboxLost):
            self._background.spawn(self.lose(kernel, event.death), f"lose {self._session_id}")
            return
        if isinstance(event, KernelReplaced):
            self.generation = event.generation
        self._on_event(event)

    async def _clear_away(self, unread: str = "") -> None:
        """Under the lock: save the files of a sandbox that is gone, and remove the rest of it."""
        await self._close()
        if not self._is_in(State.LEAVING):  # what is given up has left what there was of it already
            await self._on_lost(self.id, unread)
        await self._destroy()
        if self._state.now is State.LOST:
            self._state.move(State.ABSENT)

    async def _close(self) -> None:
        """Under the lock. The last usage and the mirror's last state are kept for the record."""
        await self._discard_spare()
        await self.egress_gateway.aclose()
        kernel, mirror, workspace_ready = self.kernel, self.mirror, self.workspace_ready
        async with asyncio.TaskGroup() as group:
            if kernel is not None:
                group.create_task(kernel.aclose())
            behind = await self._finish_copy() if workspace_ready else ""
            killed = await self._kill()  # before the files are saved: what is saved is what there was at the end
        if mirror is not None:
            # Else the store has all, and the sandbox, in which nothing has run, or its copy here a part.
            if workspace_ready and (self._copy is None or self._copy.whole):
                await self._save(mirror)
            if behind:
                self.unsaved = f"the last changes of the workspace are lost: {behind}"
            waits = self.unsaved is not None and self._workspace_id in self._spool.waiting()
            self.flushes.end(mirror, waits=waits)
        await self._stop_restore()
        self.kernel = self.mirror = self.watched = None
        self.meter.end_sandbox()
        if mirror is not None:
            await mirror.aclose()
        await self._close_copy()
        if not killed:
            await self._destroy()

    async def _stop_restore(self) -> None:
        restore, self._restore = self._restore, None
        if restore is not None:
            await restore.aclose()

    async def _save(self, mirror: Mirror) -> None:
        """Flush the workspace; what the store does not take by the deadline goes to the spool on this host."""
        self.flushes.request()
        try:
            await mirror.flush(self._settings.flush_deadline_seconds, final=True)
            await self._spool.discard(self._workspace_id)
            self.unsaved = None
        except (WorkspaceSyncError, OSError, TimeoutError) as error:
            log.warning("flush_failed", session=self._session_id, error=(why := str(error)))
            try:
                if self._info is not None:
                    await self._spool.take(self._info, self._workspace_id, self.flushes.last)
                self.unsaved = f"the workspace waits on this host for its store: {why}"
            except (WorkspaceSyncError, OSError, TimeoutError) as worse:
                log.error("workspace_not_saved", session=self._session_id, error=str(worse))
                self.unsaved = f"the last changes of the workspace are lost: {why}; and on this host: {worse}"

    async def _kill(self) -> bool:
        """Have nothing of it run any more; else all of it is to go as soon as its files are saved."""
        try:
            async with asyncio.timeout(DESTROY_SECONDS):
                used = await self._runtime.kill(self.id)
        except (KernelsError, TimeoutError) as error:
            log.error("sandbox_not_killed", session=self._session_id, sandbox=self.id, error=str(error))
            return False
        if used is not None and self.kernel is not None:
            self.meter.note(used)
        return True

    async def _destroy(self) -> None:
        """Remove every trace; what resists is left to the next launch, or to the sweep once the session has ended."""
        self._left_over = True
        try:
            async with asyncio.timeout(DESTROY_SECONDS):
                await self._runtime.destroy(self.id)
            self._left_over = False
        except (KernelsError, TimeoutError) as error:
            log.error("sandbox_not_destroyed", session=self._session_id, sandbox=self.id, error=str(error))
