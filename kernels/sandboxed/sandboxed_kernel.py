"""One live sandbox with its kernel: the runtime's container, the guest inside it and the hub on the kernel's sockets.

Words: the *sandbox* is gone when its PID 1 is; the *kernel* may die and be replaced in it, which raises the
*generation*. A `SandboxedKernel` owns one task that watches the guest and one that replaces a dead kernel.
"""

from __future__ import annotations

import asyncio
import dataclasses
import functools
import logging
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, Final

from kernels.cancelling import cancel_all
from kernels.errors import Death, GuestRefused, KernelDied, KernelsError, SandboxFailed, SandboxGone
from kernels.execution import contexts, execution
from kernels.execution.contexts import RunContext
from kernels.execution.execution import Event, Outcome
from kernels.execution.hub import Hub
from kernels.execution.outputs import UserError
from kernels.execution.runs import Durable
from kernels.execution.variables import find_deleted_file
from kernels.guest_client.client import GuestClient, KernelExit, KernelStarted
from kernels.kernelspec import Kernelspec
from kernels.sandbox import PagedOut, SandboxInfo, SandboxRuntime, SandboxUsage
from kernels.sandboxed.deaths import (
    ALL_GONE,
    GLOBALS_GONE,
    MemoryKills,
    deadline_death,
    kernel_death,
    sandbox_death,
    silent_death,
)
from kernels.sandboxed.declared_kernel import DeclaredKernel
from kernels.sandboxed.deno_kernel import DenoKernel
from kernels.sandboxed.former_kernel import hub_of
from kernels.sandboxed.kernel_events import KernelConnected, KernelReplaced, OnKernelEvent, SandboxLost, ignore_events
from kernels.sandboxed.kernel_limits import KernelLimits
from kernels.sandboxed.memory_watch import MemoryWatch
from kernels.sandboxed.node_process import run_node
from kernels.sandboxed.residence import IN_USE, Residence
from kernels.sandboxed.second_kernel import SecondKernel
from kernels.wire.client_request import ClientRequest
from kernels.wire.connection import KernelConnection
from kernels.wire.dialing import Dial
from kernels.wire.relay_link import TakenRun

log = logging.getLogger(__name__)

_START_TRIES: Final = 3
_KILL_SECONDS: Final = 5.0
"""How long the end of code that did not stop waits for the next kernel: the guest may not answer any more."""
_DRAIN_SECONDS: Final = 10.0
"""How long a kernel's last words are waited for once it has ended: the guest says at once when there are no more."""
_ADOPT_SECONDS: Final = 60.0
"""The same of one that ended while no service was there: who takes it up has things to do before."""
_SILENT_SECONDS: Final = 300.0
"""How long a guest may say nothing while its sandbox runs: code in it, or a busy host, may keep it from its turn."""
_SILENCES: Final = 6
"""How often it is looked for in that time, at least: it may be this process that stood still."""
_SILENCE_PAUSE_SECONDS: Final = 0.5
_ALIVE_SECONDS: Final = 0.5
"""How often a sandbox that starts is asked whether it still lives."""
WARM_UPS: Final = 3
"""How often a pool's kernel runs nothing: Python makes code faster that has run a few times."""


class SandboxedKernel:
    """A live kernel in its sandbox. `on_event` is called with what happens to it by itself, and returns at once."""

    ran_in = 0
    """The generation of the Python kernel that code was sent to last."""
    describe_loss: Callable[[str], str] = staticmethod(lambda gone: gone)
    """What is gone if the Python kernel or its sandbox dies now, with what is not: set by who keeps its variables."""

    def __init__(
        self,
        runtime: SandboxRuntime,
        info: SandboxInfo,
        limits: KernelLimits,
        on_event: OnKernelEvent = ignore_events,
        heard: Mapping[str, Durable] | None = None,
    ) -> None:
        """`heard` is given for a sandbox of an earlier process, as `Hub` has it."""
        self.info = info
        self._heard = heard
        self._exit_before: KernelExit | None = None
        """The end of a kernel that had come before this process took up its sandbox."""
        self._dial: Dial = functools.partial(runtime.dial, info.sandbox_id)
        self.guest = GuestClient(self._dial)
        self._on_event = on_event
        self._deno = DenoKernel(self.guest, self._dial, limits, self._second_cause, on_event)
        self._deno.heard = heard
        self._declared: dict[str, DeclaredKernel] = {}
        """Those that were asked for, by name."""
        self._node: asyncio.Task[Outcome] | None = None
        self._node_death: Death | None = None
        """Why that process ends, when this object ends it without an interrupt."""
        self._runtime = runtime
        self._limits = limits
        self._hub: Hub | None = None
        self._opening: tuple[int, Hub] | None = None
        self._exited = self._generation = 0
        self._settled: list[str] = []
        """Executions whose outcome became durable while no kernel was there: the guest hears of it from the next."""
        self._gone: Death | None = None
        self._closing = False
        self.memory = MemoryWatch(runtime, info.sandbox_id)
        self._kills = MemoryKills(self.usage, lambda: self.memory.crossings)
        self._replacing = asyncio.Lock()
        self._burying: asyncio.Task[None] | None = None  # the end of the kernel that had the code last
        self._tasks: set[asyncio.Task[None]] = set()
        self._watching: asyncio.Task[None] | None = None
        prepare = self._stand_by if info.saved_whole else None
        self.residence = Residence(runtime, info.sandbox_id, self._follow_residence, prepare)

    @property
    def generation(self) -> int:
        """The number of the kernel that takes code now, or of the one that did last."""
        return self._generation

    @property
    def hub(self) -> Hub | None:
        """The connections to the Python kernel that takes code now; None while it is replaced."""
        return self._hub if self._hub is not None and self._hub.error is None else None

    async def open(self, start_seconds: float | None = None) -> None:
        """Wait for the guest and its kernel, connect, and watch from then on; each within `start_seconds`, if given."""
        seconds = self._limits.start_seconds if start_seconds is None else start_seconds
        async with self._replacing:
            started = await self._guest_ready(seconds)
            self._watching = self._own(self._watch())
            await self._connect(started, seconds)

    async def _guest_ready(self, seconds: float) -> KernelStarted:
        """Wait for the guest's first answer; not any longer once its sandbox has ended."""
        ready = asyncio.create_task(self.guest.wait_ready(seconds))
        try:
            while not ready.done():
                await asyncio.wait({ready}, timeout=_ALIVE_SECONDS)
                if not ready.done() and not await self._runtime.running(self.info.sandbox_id):
                    raise SandboxFailed("the sandbox ended while it started")
            return ready.result()
        finally:
            await cancel_all([ready])

    async def ready(self) -> int:
        """The generation that takes code, once a replacement under way is done; raises as `execute` does."""
        await self._ready()
        return self._generation

    async def execute(
        self,
        code: str,
        *,
        timeout_seconds: float,
        emit: Callable[[Event], None],
        language: str = "python",
        runtime: str = "python",
        declared: Kernelspec | None = None,
        request: ClientRequest | None = None,
        execution_id: str = "",
        elapsed_seconds: float = 0.0,
    ) -> Outcome:
        """Run code; one at a time, the caller queues. Names are as in `execution.execute`.

        Code for a kernel that the image declares comes with what it says of it, as `declared`.
        A kernel that dies, or has to be killed after its deadline, is replaced; the outcome's `death` says why. Raises
        `SandboxGone` when there is no sandbox any more, `SandboxFailed` when no kernel starts in it.
        """
        second = self._deno if runtime == "deno" else None if declared is None else self._declared_kernel(declared)
        if second is not None or runtime == "nodejs":
            await self._await_replacement()
        if runtime == "nodejs":
            return await self._run_node(code, language, timeout_seconds, emit)
        if second is None and runtime != "python":
            missing = f"the image of this session's sandbox has no kernel {runtime}"
            return Outcome("error", error=UserError("RuntimeNotFound", missing, []))
        run = self._run_python if second is None else second.execute
        return await run(
            code,
            timeout_seconds=timeout_seconds,
            emit=emit,
            request=request,
            execution_id=execution_id,
            elapsed_seconds=elapsed_seconds,
        )

    async def _run_python(
        self,
        code: str,
        *,
        timeout_seconds: float,
        emit: Callable[[Event], None],
        request: ClientRequest | None = None,
        execution_id: str = "",
        elapsed_seconds: float = 0.0,
    ) -> Outcome:
        async with hub_of(await self._ready(), execution_id, self._dial, self._heard) as hub:
            self.ran_in = hub.generation
            outcome = await execution.execute(
                hub,
                code,
                timeout_seconds=timeout_seconds,
                interrupt_grace_seconds=self._limits.interrupt_grace_seconds,
                caps=self._limits.caps,
                interrupt=functools.partial(self.guest.interrupt_kernel, run=execution_id),
                end=functools.partial(self.guest.interrupt_kernel, "deadline", execution_id),
                emit=emit,
                request=request,
                execution_id=execution_id,
                elapsed_seconds=elapsed_seconds,
            )
        if outcome.death is not None and hub.ended_by_guest.get(execution_id) in _killed_at_deadline(hub):
            return dataclasses.replace(outcome, death=self._deadline_death(timeout_seconds))
        if not outcome.needs_kill:
            self.note_life()
            return outcome
        death = outcome.death or self._deadline_death(timeout_seconds, hub.silent_seconds)
        await asyncio.wait({self._own(self._try_replace(hub, death))}, timeout=_KILL_SECONDS)
        return dataclasses.replace(outcome, death=death)

    def _deadline_death(self, timeout_seconds: float, silent_seconds: float = 0.0) -> Death:
        grace_seconds = self._limits.interrupt_grace_seconds
        return deadline_death(timeout_seconds, grace_seconds, self.describe_loss(GLOBALS_GONE), silent_seconds)

    def go_on(self) -> None:
        """Nothing of the Python kernel's is waited for by who took up the sandbox: what it says is delivered."""
        if self._hub is not None:
            self._hub.flow()

    async def catch_up(self) -> None:
        """Wait until what its kernels said while no service was there has been delivered, a minute at most."""
        for hub in (self._hub, *(each.hub for each in self._seconds())):
            if hub is not None:
                await hub.catch_up(execution.CATCH_UP_SECONDS)

    def find_taken(self, execution_id: str) -> TakenRun | None:
        """What an earlier process has begun in this sandbox for an execution."""
        return None if self._hub is None else self._hub.find_taken(execution_id)

    @property
    def remembers_runs(self) -> bool:
        """Whether its guest knows what it was asked to run; one of an older release does not."""
        return self._hub is not None and bool(self._hub.stream)

    def durable_with(self, outcome: Outcome, execution_id: str) -> int:
        """Up to where all that its kernel said is durable once this outcome is."""
        for hub in (self.hub, *(each.hub for each in self._seconds())):
            if hub is not None and hub.stream == outcome.stream:
                return hub.durable_with(outcome.heard, execution_id)
        return outcome.heard

    def settle(self, outcome: Outcome, execution_id: str) -> None:
        """The outcome of an execution is durable, and so is all that its kernel had said by then."""
        for hub in (self.hub, *(each.hub for each in self._seconds())):
            if hub is not None and (hub.stream == outcome.stream or hub is self.hub):
                hub.settle(outcome.heard if hub.stream == outcome.stream else 0, execution_id)
        if self.hub is None:
            self._settled.append(execution_id)

    async def enter(self, context: RunContext, runtime: str) -> None:
        """Have the code that is sent next run in this context; raises as `execute` does. Other kernels have none."""
        if runtime == "deno":
            self._deno.place = context
        elif runtime == "python":
            await contexts.enter(await self._ready(), context)

    async def forget_contexts(self, names: Sequence[str]) -> None:
        """Let go of contexts of the Python kernel."""
        await contexts.forget(await self._ready(), names)

    async def warm_up(self) -> None:
        """Have a new kernel run nothing, and show a number: what a first result loads is loaded then.

        It is not counted, and no name and no line of history is left of it. Not silently, or half of the way that a
        first cell takes would be new to it.
        """
        hub = await self._ready()
        nothing = {**execution.execute_request("pass"), "store_history": False, "user_expressions": {"": "1"}}
        for _ in range(WARM_UPS):
            await hub.request("shell", "execute_request", nothing, deadline_seconds=self._limits.start_seconds)

    async def watch_memory(self, percents: tuple[int, ...]) -> SandboxUsage:
        """Watch its memory from now on, before it has run any code, which then need not ask. What it uses now."""
        usage = await self.memory.prepare(percents)
        self._kills.note(usage.oom_kills)
        return usage

    def note_life(self) -> None:
        """Memory ran out and another process was killed, a command perhaps: the kernel lives."""
        if self.hub is not None:
            self._kills.note_life()

    async def interrupt(self, execution_id: str = "") -> None:
        """Stop what runs, Python code by KeyboardInterrupt; it ends as `interrupted`. An idle kernel stays as it is.

        With an id it is for that code alone, and not for what may run by the time that the kernel gets it.
        """
        if self._node is not None:
            self._node.cancel()
        elif (busy := next((each for each in self._seconds() if each.busy), None)) is not None:
            await busy.interrupt()
        else:
            await self._interrupt_python(execution_id)

    def _seconds(self) -> list[SecondKernel]:
        """The kernels beside Python's, started or not."""
        return [self._deno, *self._declared.values()]

    def _declared_kernel(self, spec: Kernelspec) -> DeclaredKernel:
        found = self._declared.get(spec.name)
        if found is None:
            found = DeclaredKernel(self.guest, self._dial, self._limits, self._second_cause, self._on_event, spec=spec)
            found.heard = self._heard
            self._declared[spec.name] = found
        return found

    def declared_hub(self, spec: Kernelspec) -> Hub | None:
        """The connections to a kernel that the image declares; None while it does not run."""
        return self._declared_kernel(spec).hub

    async def reach_declared(self, spec: Kernelspec) -> Hub:
        """The same of one that runs from now on; raises KernelsError when it does not start."""
        await self._await_replacement()
        return await self._declared_kernel(spec).ready()

    def _second_exited(self, runtime: str, gone: KernelExit) -> None:
        """The guest says that a kernel beside Python's ended; one that this process has not used concerns nobody."""
        found = next((each for each in self._seconds() if each.runtime == runtime), None)
        if found is not None:
            found.handle_exit(gone)

    async def _interrupt_python(self, execution_id: str) -> None:
        if self._hub is not None:
            self._hub.note_interrupt(execution_id)
        await self.guest.interrupt_kernel(run=execution_id)

    async def _run_node(
        self, code: str, language: str, timeout_seconds: float, emit: Callable[[Event], None]
    ) -> Outcome:
        """A process of its own; interrupting cancels it, and so does a restart, which its death says."""
        running = run_node(
            self.guest, code, language, timeout_seconds=timeout_seconds, caps=self._limits.caps, emit=emit
        )
        self._node, self._node_death = asyncio.ensure_future(running), None
        try:
            # It ends: the guest kills the process at its timeout, and the call to the guest has a deadline past that.
            await asyncio.wait({self._node})
            if not self._node.cancelled():
                return self._node.result()
            return Outcome("died", death=self._node_death) if self._node_death else Outcome("interrupted")
        finally:
            self._node.cancel()
            self._node = None

    async def restart(self) -> int:
        """Replace the kernel by a blank one and end those beside it, if any; returns the new generation."""
        hub = self._hub
        death = Death("restart", "the kernel was restarted on request; its globals are gone")
        if self._node is not None:
            self._node_death = death
            self._node.cancel()
        await self._replace(hub, death, keep_others=False)
        return self._generation

    async def clear(self) -> int:
        """Replace the Python kernel alone by a blank one, for code that asks for it; returns the new generation."""
        await self._replace(self._hub, Death("restart", "its context was cleared on request; its globals are gone"))
        return self._generation

    async def renumber(self, generation: int) -> None:
        """Have the first kernel, in which no code has run, be of a later generation; raises KernelsError.

        When it dies meanwhile that is raised too, and this sandbox is of no use.
        """
        async with self._replacing:
            hub = self.hub
            if hub is None:
                raise SandboxFailed("the sandbox's kernel died while it waited for a session")
            await self.guest.renumber_kernel(generation)
            if self._exited or hub.error is not None:
                raise SandboxFailed("the sandbox's kernel died as it got its session")
            hub.renumber(generation)
            self._generation = generation

    async def page_out(self, still_idle: Callable[[], bool] = lambda: True) -> PagedOut:
        """Stop the sandbox and move its memory to swap; its next use, of whatever kind, has it go on.

        Nothing is done while something is under way in it, background commands too, or `still_idle` does not hold.
        Raises KernelsError.
        """
        if self.residence.stopped or await self.is_in_use():
            return IN_USE
        # Asked again: nothing waits from here until it is marked as stopped.
        if self._is_in_use() or not still_idle():
            return IN_USE
        return await self.residence.page_out()

    async def save(self) -> PagedOut:
        """Have the runtime write all of the sandbox to its disk and end its processes; or say why that is not so.

        Called while nobody else gets at the kernel. Where nothing was saved the sandbox runs on, or is lost.
        """
        if not self.info.saved_whole:
            return PagedOut(0)
        try:
            if self.residence.stopped or await self.is_in_use():
                return IN_USE
            if path := await find_deleted_file(await self._ready()):
                return PagedOut(0, f"a deleted file is open, {path}")
            return await self.residence.save()
        except (KernelsError, OSError) as error:
            log.warning("processes_not_saved %s: %s", self.info.sandbox_id, error)
            return PagedOut(0, str(error) if isinstance(error, GuestRefused) else "they could not be saved")

    async def is_in_use(self) -> bool:
        """Whether anything is under way in the sandbox, background commands too; raises KernelsError."""
        return self._is_in_use() or await self.guest.runs_commands()

    def _is_in_use(self) -> bool:
        """Whether something is under way with the sandbox that is known on this side."""
        hub = self.hub
        if hub is None or hub.awaits_reply or self.guest.busy or self._node is not None:
            return True
        return self._closing or self._replacing.locked() or any(each.busy or each.starting for each in self._seconds())

    async def _stand_by(self) -> None:
        """Before the sandbox is saved whole; raises KernelsError where its guest knows that it cannot be."""
        guest = GuestClient(self._dial)  # calls of the other wait until the sandbox goes on
        try:
            await guest.stand_by()
        finally:
            await guest.aclose()

    def _follow_residence(self) -> None:
        """A guest that stands still is not followed: its silence is no death."""
        stopped = self.residence.stopped
        self.guest.awake = self.residence.awake if stopped else None
        for hub in (self._hub, *(each.hub for each in self._seconds())):
            if hub is not None:
                hub.wake = self.residence.wake if stopped else None
        if self._hub is not None and self.residence.saving:
            self._hub.suspend() if stopped else self._hub.resume()
        if self.residence.saving and not stopped:
            self._own(self.memory.renew())
        if stopped:
            if self._watching is not None:
                self._watching.cancel()
            self.guest.forget_connections()
        elif not self._closing and self._gone is None:
            self._watching = self._own(self._watch())

    async def usage(self) -> SandboxUsage:
        """What the sandbox has used; raises `SandboxGone`."""
        return await self._runtime.usage(self.info.sandbox_id)

    async def aclose(self) -> None:
        """Let go of the sandbox, which keeps running."""
        self._closing = True
        await self.residence.aclose()
        await cancel_all(self._tasks)
        if self._hub is not None:
            self._hub.fail(SandboxGone("the service let go of this sandbox"))
            await self._hub.aclose()
        for each in self._seconds():
            await each.aclose()
        await self._kills.aclose()
        await self.memory.aclose()
        await self.guest.aclose()

    async def destroy(self) -> None:
        """Let go of the sandbox and remove every trace of it."""
        await self.aclose()
        await self._runtime.destroy(self.info.sandbox_id)

    async def _connect(self, started: KernelStarted, seconds: float) -> None:
        relay = "python" if started.has_relay else ""
        connection = KernelConnection(self._dial, started.generation, started.key.encode(), relay=relay)
        hub = Hub(connection, heard=self._heard)
        self._opening = started.generation, hub
        if self._exited == started.generation and not self._takes_up(started.generation):
            # Its end was reported before the answer to its start.
            hub.fail(KernelDied(Death("exit", "the kernel ended while it started")))
        try:
            await hub.open(seconds)
        except BaseException:
            await hub.aclose()
            raise
        finally:
            self._opening = None
        self._hub, self._generation = hub, started.generation
        for each in self._settled:
            hub.settle(0, each)
        self._settled.clear()
        self._on_event(KernelConnected(hub))
        await self._kills.start()
        gone, self._exit_before = self._exit_before, None
        if gone is not None and hub.error is None:
            self._burying = self._own(self._bury(gone, hub))

    def _takes_up(self, generation: int) -> bool:
        """Whether this is the kernel that an earlier process has left; its guest tells of it even after its end."""
        return self._heard is not None and self._generation == 0 and generation > 0

    async def _ready(self) -> Hub:
        """The hub of a live kernel, waiting for a replacement that is under way, or trying one more."""
        async with self._replacing:
            hub = self._hub
        if self._burying is not None and hub is not None and hub.is_flowing:
            await asyncio.wait({self._burying})
            hub = self._hub
        if self.residence.stopped:
            await self.residence.awake()
        if hub is None or hub.error is not None:
            why = f"the kernel did not answer any more; {self.describe_loss(GLOBALS_GONE)}"
            hub = await self._replace(hub, Death("exit", why))
        if self._gone is not None or hub is None:
            raise SandboxGone(self._gone.detail if self._gone else "the sandbox is gone")
        self._kills.note_life()
        return hub

    def _own(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def _kernel_exited(self, gone: KernelExit) -> None:
        """The guest says a kernel ended: the one that starts, the one that runs, or one already replaced."""
        self._exited = gone.generation
        if self._takes_up(gone.generation):
            self._exit_before = gone
            if self._opening is not None and not self._opening[1].stream:
                self._opening[1].fail(KernelDied(Death("exit", f"the kernel has ended ({_how(gone)})")))
        elif self._opening is not None and self._opening[0] == gone.generation:
            self._opening[1].fail(KernelDied(Death("exit", f"the kernel ended while it started ({_how(gone)})")))
        elif gone.generation == self._generation and not self._closing:
            self._burying = self._own(self._bury(gone, self._hub))

    async def _await_replacement(self) -> None:
        """Wait for a replacement under way, which may end what runs next to the kernel too."""
        async with self._replacing:
            if self._gone is not None:
                raise SandboxGone(self._gone.detail)
        if self.residence.stopped:
            await self.residence.awake()

    async def _second_cause(self, gone: KernelExit) -> Death:
        death = await kernel_death(gone, self._kills)
        if death.cause == "oom":
            self._kills.explain_one()
        return death

    async def _bury(self, gone: KernelExit, hub: Hub | None) -> None:
        death = await kernel_death(gone, self._kills, self.describe_loss(GLOBALS_GONE))
        if hub is not None:
            await hub.drain(_ADOPT_SECONDS if hub.resumed else _DRAIN_SECONDS)
            hub.fail(KernelDied(death))
        await self._try_replace(hub, death)

    async def _try_replace(self, hub: Hub | None, death: Death) -> None:
        """Replace the kernel; when none starts, the next execution tries again and says so."""
        try:
            await self._replace(hub, death)
        except KernelsError as error:
            log.warning("kernel_not_replaced %s: %s", self.info.sandbox_id, error)

    async def _replace(self, hub: Hub | None, death: Death | None, *, keep_others: bool = True) -> Hub | None:
        """Start the next generation in place of the kernel behind `hub`; a second call for the same kernel waits."""
        async with self._replacing:
            if self._gone is not None:
                raise SandboxGone(self._gone.detail)
            if self._hub is not hub:
                return self._hub
            if hub is not None:
                hub.fail(KernelDied(death or Death("restart", "the kernel was replaced")))
                self._hub = None
                await hub.aclose()
            if not keep_others:
                for each in self._seconds():
                    each.end(death or Death("restart", "the kernels were restarted"))
            try:
                async with asyncio.timeout(self._limits.start_seconds) as limit:
                    await self._start_next(keep_others=keep_others)
            except TimeoutError:
                if not limit.expired():
                    raise
                # Its guest, which starts kernels and passes on what they say, is of no use any more.
                why = f"no kernel started in it within {self._limits.start_seconds:g} s; {self.describe_loss(ALL_GONE)}"
                self._sandbox_gone(Death("sandbox", f"the sandbox was given up: {why}"))
                raise SandboxGone(f"the sandbox was given up: {why}") from None
        self._on_event(KernelReplaced(self._generation, death))
        return self._hub

    async def _start_next(self, *, keep_others: bool) -> None:
        """Start a kernel, a few times over: the first may fall to what killed the last one (a full process table).

        What the kernels beside it keep is given up for that only when the first try has failed.
        """
        for attempt in range(1, _START_TRIES + 1):
            self._generation += 1
            try:
                keep = keep_others and attempt == 1
                started = await self.guest.start_kernel(self._generation, keep_others=keep)
                await self._connect(started, self._limits.start_seconds)
            except SandboxGone:
                raise
            except KernelsError as error:
                if attempt == _START_TRIES:
                    raise SandboxFailed(f"no kernel starts in this sandbox any more: {error}") from error
            else:
                return

    async def _watch(self) -> None:
        """Follow the guest. A silent one is not a dead sandbox: that is one whose first process is gone."""
        loop = asyncio.get_running_loop()
        heard, silences = loop.time(), 0
        while silences < _SILENCES or loop.time() - heard < _SILENT_SECONDS:
            await self.guest.watch(
                lambda _started: None, self._kernel_exited, lambda: None, on_second_exit=self._second_exited
            )
            runs = await self._runs()
            if runs is False:
                await self.note_end()
                return
            latest = loop.time() if runs is None else self.guest.heard
            heard, silences = (latest, 0) if latest > heard else (heard, silences + 1)
            await asyncio.sleep(_SILENCE_PAUSE_SECONDS)
        self._sandbox_gone(silent_death(loop.time() - heard, self.describe_loss(ALL_GONE)))

    async def note_end(self) -> None:
        """The caller has seen that the sandbox's first process is gone: all that waits for it hears why."""
        self._sandbox_gone(await sandbox_death(self._kills, self.describe_loss(ALL_GONE)))

    async def _runs(self) -> bool | None:
        """Whether the sandbox's first process is there; None while that cannot be known."""
        try:
            return await self._runtime.running(self.info.sandbox_id)
        except (KernelsError, OSError):
            return None

    def _sandbox_gone(self, death: Death) -> None:
        if self._closing or self._gone is not None:
            return
        self._gone = death
        for hub in (self._hub, self._opening[1] if self._opening else None):
            if hub is not None:
                hub.fail(KernelDied(self._gone))
        for each in self._seconds():
            each.end(self._gone)
        self._on_event(SandboxLost(self._gone))


async def open_kernel(
    runtime: SandboxRuntime,
    info: SandboxInfo,
    limits: KernelLimits,
    on_event: OnKernelEvent,
    start_seconds: float | None = None,
    *,
    heard: Mapping[str, Durable] | None = None,
) -> SandboxedKernel:
    """Open the sandbox that `runtime` has just made, or that still runs; closes our side when that fails.

    This start may take `start_seconds` instead of what the limits say.
    """
    kernel = SandboxedKernel(runtime, info, limits, on_event, heard)
    try:
        await kernel.open(start_seconds)
    except BaseException:
        await kernel.aclose()
        raise
    return kernel


def _killed_at_deadline(hub: Hub) -> tuple[str, ...]:
    """How far its end at the deadline has gone, by the guest's word, of code whose kernel died of that."""
    return ("interrupt", "kill") if hub.is_former else ("kill",)


def _how(gone: KernelExit) -> str:
    return gone.signal or f"exit status {gone.exit_code}"
