"""The sandbox of one session over the session's life: launched, adopted, lost, launched again, given up.

One lock orders these; whoever runs code or looks at files asks `ready()`, which launches a sandbox when there is none
and waits for its workspace. The sandbox has the session's id; each new one starts with the next generation and the
workspace restored.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable

import msgspec
import structlog

from kernel_gateway.errors import SandboxUnavailable, SessionTerminated, translate
from kernel_gateway.services.environments.egress import EgressGateway, Find
from kernel_gateway.services.mirroring.flushes import Flushes
from kernel_gateway.services.parts import Parts
from kernel_gateway.services.sandbox_contract import LiveKernel
from kernel_gateway.services.sessions.workspace_restore import WorkspaceRestore
from kernels.errors import Death, KernelsError
from kernels.execution.hub import Hub
from kernels.sandbox import SandboxInfo, SandboxSpec
from sandcell.models.shapes import Usage
from sandcell.models.sync import Restoring, Sync
from workspace_sync import Mirror, RestoreReport
from workspace_sync.directory.changes import Watched
from workspace_sync.errors import WorkspaceSyncError

log = structlog.get_logger(__name__)
USAGE_SECONDS = 2.0
DESTROY_SECONDS = 60.0
TRIES = 3
"""How many sandboxes may be lost while one call waits for their workspace."""


class SessionSandbox:
    """`on_replaced(generation, death)` is called for every generation after the first; it returns at once.

    `on_deno_death(death)` is the live kernel's. `owner` is the principal in whose turn it is started.

    `_spent_seconds` is the processor time of the sandboxes that the present one follows.
    While `_death` is set, the present sandbox is dead and still to be cleared away, or there is none and the next one
    needs a new generation.
    """

    def __init__(
        self,
        parts: Parts,
        session_id: str,
        workspace_id: str,
        *,
        owner: str,
        find_environment: Find,
        generation: int,
        egress_gateway: EgressGateway,
        on_replaced: Callable[[int, Death | None], None],
        on_deno_death: Callable[[Death], None],
        flushes: Flushes,
    ) -> None:
        self.generation = generation
        self.egress_gateway = egress_gateway
        self.kernel: LiveKernel | None = None
        self._info: SandboxInfo | None = None
        self.mirror: Mirror | None = None
        self.watched: Watched | None = None
        self._furnishing: WorkspaceRestore | None = None
        self.flushes = flushes
        flushes.find_mirror = lambda: self.mirror
        self._parts = parts
        self._session_id, self._owner, self._workspace_id = session_id, owner, workspace_id
        self._find_environment = find_environment
        self._on_replaced = on_replaced
        self._on_deno_death = on_deno_death
        self.on_hub: Callable[[Hub], None] = lambda _hub: None
        """Called with the connections to each kernel that takes code from then on; the next with JavaScript's."""
        self.on_deno_hub: Callable[[Hub], None] = lambda _hub: None
        self.on_restored: Callable[[RestoreReport], None] = lambda _report: None
        """Called with what a new sandbox's workspace was filled with."""
        self._death: Death | None = None
        self._lock = asyncio.Lock()
        self._launching: asyncio.Task[LiveKernel] | None = None
        self.unsaved: str | None = None
        """What to say of files that could not be brought to the store."""
        self._given_up = False
        self.last_usage, self._spent_seconds = Usage(), 0.0

    @property
    def live_generation(self) -> int | None:
        """The generation of the kernel that takes code now; None when there is none."""
        return self.kernel.generation if self.kernel is not None and self._usable() else None

    @property
    def environment_digest(self) -> str:
        """The image that the present sandbox was made from, or the last one when there is none; empty if not known."""
        return self._info.environment_digest if self._info is not None else ""

    def _usable(self) -> bool:
        return self._death is None and not self._given_up

    @property
    def furnished(self) -> bool:
        """Whether all of its workspace is there."""
        return self._furnishing is None or self._furnishing.complete

    async def ready(self) -> LiveKernel:
        """The live kernel, in a new sandbox when there is none, with all of its workspace; raises our errors."""
        for _ in range(TRIES):
            kernel = await self.started()
            await self.restored()
            if kernel is self.kernel and self._usable() and self.furnished:
                return kernel
        raise SandboxUnavailable("the sandbox was lost again and again while its workspace was restored: try again")

    async def restored(self) -> None:
        """Wait for the present sandbox's workspace, or for the sandbox's end; raises our errors."""
        if self._furnishing is not None and not self._furnishing.complete:
            await self._furnishing.done(self._parts.settings.restore_deadline_seconds)

    async def started(self) -> LiveKernel:
        """The live kernel, in a new sandbox when there is none; its files may still be on their way."""
        if self.kernel is not None and self._usable():
            return self.kernel
        async with self._lock:
            if self._given_up:
                raise self._ended()
            await self._bury()
            return self.kernel or await self._made()

    async def _made(self) -> LiveKernel:
        """Under the lock: launch, in a task of its own so that the session's end can cancel it."""
        death, self._death = self._death, None
        generation = self.generation if death is None else self.generation + 1
        self._launching = self._parts.background.spawn(self._launch(generation), f"launch {self._session_id}")
        try:
            kernel = await self._launching
        except BaseException as error:
            self._death = death
            if isinstance(error, asyncio.CancelledError) and self._given_up:
                raise self._ended() from None
            raise
        finally:
            self._launching = None
        if death is not None:
            self._on_replaced(self.generation, death)
        return kernel

    def _ended(self) -> SessionTerminated:
        return SessionTerminated("the session has ended", session_id=self._session_id)

    def require_new(self, death: Death) -> None:
        """There is no sandbox any more: the next `ready()` launches one of the next generation."""
        self._death = death

    async def adopt(self, info: SandboxInfo) -> None:
        """Take up the sandbox that an earlier process of ours left running."""
        async with self._lock:
            kernel = await self._parts.launcher.adopt(info, self.generation)
            await self.egress_gateway.reopen()
            mirror = self._parts.mirrors.mirror(info, self._workspace_id)
            self._take(kernel, mirror)
            await self._watch(info, mirror)
            if self._workspace_id in self._parts.spool.waiting():  # the live files are newer than that copy
                await self._save(mirror)

    async def mend_way_out(self) -> None:
        """Called by the sweep: try again to open what could not be opened when the sandbox was taken up."""
        async with self._lock:
            if self.kernel is not None and self._usable() and self.egress_gateway.missing:
                await self.egress_gateway.reopen()

    async def recover_files(self, info: SandboxInfo) -> None:
        """Bring what a dead sandbox left in its workspace to the store, then remove the sandbox."""
        async with self._lock:
            try:
                await self._parts.launcher.reopen(info.sandbox_id)
            except KernelsError as error:
                log.error("workspace_not_reopened", session=self._session_id, error=str(error))
            self._info, self.mirror = info, self._parts.mirrors.mirror(info, self._workspace_id)
            await self._close()

    async def lose(self, kernel: LiveKernel, death: Death) -> None:
        """The sandbox is gone: save its files and remove what is left of it. The next `ready()` makes another."""
        if self.kernel is kernel and self._death is None:
            self._death = death
            log.warning("sandbox_lost", session=self._session_id, cause=death.cause)
        async with self._lock:
            await self._bury()

    async def _bury(self) -> None:
        """Under the lock: clear a dead sandbox away, if that is still to do."""
        if self._death is not None and self.kernel is not None:
            await self._close()

    async def give_up(self) -> None:
        """The session ends: save its files, remove the sandbox, for good."""
        self._given_up = True
        if self._launching is not None:
            self._launching.cancel()
        async with self._lock:
            await self._close()

    async def let_go(self) -> None:
        """The service ends and the sandbox stays: save what can be saved by now, close our side."""
        self._given_up = True
        if self._launching is not None:
            self._launching.cancel()
        async with self._lock:
            kernel, mirror, furnished = self.kernel, self.mirror, self.furnished
            self.kernel = self.mirror = None
            await self.egress_gateway.aclose()
            if mirror is not None:
                if furnished:
                    with contextlib.suppress(WorkspaceSyncError, TimeoutError):
                        await mirror.flush(self._parts.settings.flush_deadline_seconds)
                self.flushes.note(mirror)
                await self._stop_furnishing()
                await mirror.aclose()
            if kernel is not None:
                await kernel.aclose()

    def sync(self) -> Sync:
        """How far the workspace's mirror is; while a sandbox is made its files are on their way as well."""
        said = self.flushes.sync()
        return said if self._launching is None else msgspec.structs.replace(said, restoring=Restoring())

    async def usage(self) -> Usage:
        """What the sandbox uses, or used when last asked; its processor time with that of those before it."""
        kernel = self.kernel
        if kernel is not None:
            with contextlib.suppress(KernelsError, TimeoutError):
                async with asyncio.timeout(USAGE_SECONDS):
                    used = await kernel.usage()
                if kernel is not self.kernel:  # its sandbox is counted among those before by now
                    return self.last_usage
                self.last_usage = Usage(
                    memory_bytes=used.memory_bytes,
                    memory_peak_bytes=used.memory_peak_bytes,
                    memory_limit_bytes=used.memory_limit_bytes,
                    cpu_seconds=self._spent_seconds + used.cpu_seconds,
                    pids=used.pids,
                    storage_used_bytes=used.storage_used_bytes,
                    storage_limit_bytes=used.storage_limit_bytes,
                )
        return self.last_usage

    async def _launch(self, generation: int) -> LiveKernel:
        parts, settings = self._parts, self._parts.settings
        spec = SandboxSpec(self._session_id, await self._find_environment(), generation)
        begun: list[WorkspaceRestore] = []

        async def furnish(info: SandboxInfo) -> None:
            await self.egress_gateway.open(spec.environment)
            if await parts.spool.deliver(self._workspace_id):
                self.unsaved = None
            mirror = parts.mirrors.mirror(info, self._workspace_id)
            begun.append(
                WorkspaceRestore(parts.background, mirror, lambda report: self._furnished(info, mirror, report))
            )
            await begun[0].begin()

        try:
            async with (
                parts.starting.place(self._owner),
                asyncio.timeout(settings.start_deadline_seconds + settings.restore_deadline_seconds),
            ):
                kernel = await parts.launcher.launch(spec, before_first_code=furnish)
        except BaseException as error:
            await self.egress_gateway.aclose()
            for each in begun:
                await each.aclose()
            raise translate(error) if isinstance(error, Exception) else error from None
        self._furnishing = begun[0]
        self._take(kernel, self._furnishing.mirror)
        self._furnishing.go_on()
        return kernel

    async def _furnished(self, info: SandboxInfo, mirror: Mirror, report: RestoreReport) -> None:
        """All files of a new sandbox are there."""
        await self._watch(info, mirror)
        await self._parts.launcher.mark_workspace_ready(info.sandbox_id)
        self.on_restored(report)

    async def _watch(self, info: SandboxInfo, mirror: Mirror) -> None:
        """Look at the files as they are before the next code runs, so that what it changes can be told."""
        self.watched = Watched(info.workspace_directory, tree=mirror.tree)
        await asyncio.to_thread(self.watched.look)

    def _take(self, kernel: LiveKernel, mirror: Mirror) -> None:
        self.kernel, self.mirror, self._info = kernel, mirror, kernel.info
        self.generation = max(self.generation, kernel.generation)
        kernel.on_generation = self._kernel_replaced
        kernel.on_deno_death = self._on_deno_death
        kernel.on_gone = lambda death: self._kernel_gone(kernel, death)
        kernel.on_deno_hub = lambda hub: self.on_deno_hub(hub)  # noqa: PLW0108 - as below
        kernel.on_hub = lambda hub: self.on_hub(hub)  # noqa: PLW0108 - the session sets it later
        if kernel.hub is not None:
            self.on_hub(kernel.hub)

    def _kernel_replaced(self, generation: int, death: Death | None) -> None:
        self.generation = generation
        self._on_replaced(generation, death)

    def _kernel_gone(self, kernel: LiveKernel, death: Death) -> None:
        self._parts.background.spawn(self.lose(kernel, death), f"lose {self._session_id}")

    async def _close(self) -> None:
        """Under the lock. The last usage and the mirror's last state are kept for the record."""
        await self.egress_gateway.aclose()
        await self.usage()
        kernel, mirror, furnished = self.kernel, self.mirror, self.furnished
        if mirror is not None:
            if furnished:  # else nothing has run in it: the store has all, and the sandbox a part
                await self._save(mirror)
            waits = self.unsaved is not None and self._workspace_id in self._parts.spool.waiting()
            self.flushes.end(mirror, waits=waits)
        await self._stop_furnishing()
        self.kernel = self.mirror = self.watched = None
        self._spent_seconds = self.last_usage.cpu_seconds
        if mirror is not None:
            await mirror.aclose()
        if kernel is not None:
            await kernel.aclose()
        await self._destroy()

    async def _stop_furnishing(self) -> None:
        furnishing, self._furnishing = self._furnishing, None
        if furnishing is not None:
            await furnishing.aclose()

    async def _save(self, mirror: Mirror) -> None:
        """Flush the workspace; what the store does not take by the deadline goes to the spool on this host."""
        self.flushes.request()
        try:
            await mirror.flush(self._parts.settings.flush_deadline_seconds, final=True)
            await self._parts.spool.discard(self._workspace_id)
            self.unsaved = None
        except (WorkspaceSyncError, TimeoutError) as error:
            log.warning("flush_failed", session=self._session_id, error=str(error))
            await self._keep_here(str(error))

    async def _keep_here(self, why: str) -> None:
        try:
            if self._info is not None:
                await self._parts.spool.take(self._info, self._workspace_id, self.flushes.last)
            self.unsaved = f"the workspace waits on this host for its store: {why}"
        except (WorkspaceSyncError, OSError, TimeoutError) as error:
            log.error("workspace_not_saved", session=self._session_id, error=str(error))
            self.unsaved = f"the last changes of the workspace are lost: {why}; and on this host: {error}"

    async def _destroy(self) -> None:
        """Remove every trace; what resists is left to the sweep."""
        try:
            async with asyncio.timeout(DESTROY_SECONDS):
                await self._parts.launcher.destroy(self._session_id)
        except (KernelsError, TimeoutError) as error:
            log.error("sandbox_not_destroyed", session=self._session_id, error=str(error))
