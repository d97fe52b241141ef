"""A kernel next to the Python one in a sandbox, for code in other languages, started when it is first used.

It shares the sandbox's files, limits and end, not its globals nor its generation. Words: it *ends* by itself, by a kill
or with the sandbox; the next use then starts a blank one. Which kernel it is say `DenoKernel` and `DeclaredKernel`.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import functools
import logging
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from kernels.cancelling import cancel_all
from kernels.errors import DeadlineExceeded, Death, GuestRefused, KernelDied, KernelsError, SandboxGone
from kernels.execution import execution
from kernels.execution.dialect import Dialect
from kernels.execution.execution import Event, Outcome
from kernels.execution.hub import Hub
from kernels.execution.outputs import UserError
from kernels.execution.runs import Durable
from kernels.guest_client.client import GuestClient, KernelExit, KernelStarted, Why
from kernels.sandboxed.former_kernel import hub_of
from kernels.sandboxed.kernel_events import OnKernelEvent, SecondConnected, SecondDied
from kernels.sandboxed.kernel_limits import KernelLimits
from kernels.wire.client_request import ClientRequest
from kernels.wire.connection import KernelConnection
from kernels.wire.dialing import Dial

log = logging.getLogger(__name__)

_ONE_TRY: Final = 0.4
"""The part of the time for a start after which another kernel is tried."""
_INTERRUPT_SECONDS: Final = 5.0
_DRAIN_SECONDS: Final = 10.0
_SILENT: Final = (
    "the kernel for {title} did not answer in time (it may have run code from before the service restarted), so it was"
    " killed; its globals are gone"
)


class SecondKernel(ABC):
    """Starts one when code comes, runs the code, kills what does not end. `runtime` and `title` name it to people.

    `cause` finds out why a kernel ended. `on_event` is called with SecondConnected and SecondDied, and returns at once.
    """

    runtime: str
    title: str
    missing: str
    """What code hears for which the image has no such kernel."""
    prelude: str = ""
    """Code that runs first, silently, in each."""

    def __init__(
        self,
        guest: GuestClient,
        dial: Dial,
        limits: KernelLimits,
        cause: Callable[[KernelExit], Awaitable[Death]],
        on_event: OnKernelEvent,
    ) -> None:
        self.heard: Mapping[str, Durable] | None = None
        """As `Hub` has it, in a sandbox of an earlier process."""
        self._on_event = on_event
        self.guest = guest
        self._dial = dial
        self._limits = limits
        self._cause = cause
        self._hub: Hub | None = None
        self._generation = 0
        self._opening: tuple[int, Hub] | None = None
        self._exited = 0
        self._expected: Death | None = None
        """Why the kernel ends now, when it is us who end it."""
        self._run = 0
        """The number of the run that is under way; 0 when none is."""
        self._runs = 0
        self._lost: Death | None = None
        """Why there is no state any more, until an execution has reported it."""
        self._killed = 0
        """The run that did not stop when it was interrupted."""
        self._interrupts = 0
        self._starting = asyncio.Lock()
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def hub(self) -> Hub | None:
        """The connections to the kernel that takes code now; None while there is none."""
        return self._hub if self._hub is not None and self._hub.error is None else None

    @property
    def busy(self) -> bool:
        """Whether code runs in it, or waits for its start."""
        return self._run != 0

    @property
    def starting(self) -> bool:
        """Whether one is being started, for code or for an attached client."""
        return self._starting.locked()

    async def execute(
        self,
        code: str,
        *,
        timeout_seconds: float,
        emit: Callable[[Event], None],
        request: ClientRequest | None = None,
        execution_id: str = "",
        elapsed_seconds: float = 0.0,
    ) -> Outcome:
        """Run code, as `SandboxedKernel.execute` does. Raises `SandboxGone` when there is no sandbox any more."""
        self._runs += 1
        self._run, before = self._runs, self._interrupts
        try:
            try:
                hub = await self._make_ready(execution_id)
            except SandboxGone:
                raise
            except GuestRefused as error:
                return self._no_kernel(error)
            except KernelsError as error:
                why = f"no kernel for {self.title} starts in this sandbox: {error}"
                return Outcome("died", death=Death("exit", why))
            if self._interrupts > before:
                return Outcome("interrupted")
            self._tell_lost(emit)
            async with hub_of(hub, execution_id, self._dial, self.heard) as hub:
                return await self._execute(
                    hub,
                    code,
                    timeout_seconds=timeout_seconds,
                    emit=emit,
                    request=request,
                    execution_id=execution_id,
                    elapsed_seconds=elapsed_seconds,
                )
        finally:
            self._run = 0

    async def _make_ready(self, execution_id: str) -> Hub:
        """As `ready`, and prepared for code; what an earlier process has begun needs no more."""
        hub = await self.ready(execution_id)
        if hub.find_taken(execution_id) is None:
            await self.prepare(hub)
        return hub

    def _tell_lost(self, emit: Callable[[Event], None]) -> None:
        if self._lost is not None:
            lost, self._lost = self._lost, None
            emit(Event("generation", {"runtime": self.runtime, "cause": lost.cause, "detail": lost.detail}))

    async def interrupt(self) -> None:
        """Stop what runs, which then ends as `interrupted`; code that does not stop has its kernel killed."""
        self._interrupts += 1
        if self._hub is not None and self._run:
            self._hub.note_interrupt()
            self._own(self._kill_unless_ended(self._run))
            await self.send_interrupt(self._hub)

    def handle_exit(self, gone: KernelExit) -> None:
        """The guest says that one of these kernels ended; and says so again to each new follower."""
        if gone.generation <= self._exited:
            return
        self._exited = gone.generation
        if self._opening is not None and self._opening[0] == gone.generation:
            death = Death("exit", f"the kernel ended while it started ({_how(gone)}): {gone.last_words[-500:]}")
            self._opening[1].fail(KernelDied(self._expected or death))
        elif self._hub is not None and self._generation == gone.generation:
            self._own(self._bury(gone, self._hub))

    def end(self, death: Death) -> None:
        """It ends now, for a reason that the caller knows; only a run under way hears of it."""
        self._expected = death
        for hub in (self._hub, self._opening[1] if self._opening else None):
            if hub is not None:
                hub.fail(KernelDied(death))

    async def aclose(self) -> None:
        """Let go of it."""
        await cancel_all(self._tasks)
        if self._hub is not None:
            self._hub.fail(SandboxGone("the service let go of this sandbox"))
            await self._hub.aclose()

    async def _execute(
        self,
        hub: Hub,
        code: str,
        *,
        timeout_seconds: float,
        emit: Callable[[Event], None],
        request: ClientRequest | None,
        execution_id: str,
        elapsed_seconds: float,
    ) -> Outcome:
        outcome = await execution.execute(
            hub,
            code,
            timeout_seconds=timeout_seconds,
            interrupt_grace_seconds=self._limits.interrupt_grace_seconds,
            caps=self._limits.caps,
            interrupt=functools.partial(self.send_interrupt, hub, run=execution_id),
            end=functools.partial(self.send_interrupt, hub, "deadline", execution_id),
            emit=emit,
            dialect=self.make_dialect(),
            request=request,
            execution_id=execution_id,
            elapsed_seconds=elapsed_seconds,
        )
        if outcome.status == "died" and (self._killed == self._run or execution_id in hub.interrupted):
            outcome = dataclasses.replace(outcome, status="interrupted")
        if not outcome.needs_kill:
            return outcome
        death = outcome.death or _unstoppable(
            f"the code ran past its timeout of {timeout_seconds:g} s and", self._limits.interrupt_grace_seconds
        )
        await self._kill(hub, death)
        return dataclasses.replace(outcome, death=death)

    async def ready(self, execution_id: str = "") -> Hub:
        """The hub of a live kernel, which is started when there is none; raises KernelsError.

        What one says that an earlier process has used comes at once, unless it still runs this execution.
        """
        async with self._starting:
            hub = self.hub or await self._start_one()
        if hub.find_taken(execution_id) is None:
            hub.flow()
        return hub

    async def _start_one(self) -> Hub:
        if self._hub is not None:
            hub, self._hub = self._hub, None
            await hub.aclose()
        loop, seconds = asyncio.get_running_loop(), self._limits.start_seconds
        give_up = loop.time() + seconds
        while True:
            try:
                return await self._connect(await self.start(), seconds * _ONE_TRY)
            except (SandboxGone, GuestRefused):
                raise
            except KernelsError as error:
                log.warning("kernel_not_started %s: %s", self.runtime, error)
                await self._kill_quietly()
                if isinstance(error, DeadlineExceeded):
                    self._record_idle_death(Death("deadline", _SILENT.format(title=self.title)))
                if loop.time() + seconds * _ONE_TRY > give_up:
                    raise

    async def _connect(self, started: KernelStarted, seconds: float) -> Hub:
        self._expected = None
        relay = self.runtime if started.has_relay else ""
        connection = KernelConnection(self._dial, started.generation, started.key.encode(), self.name_socket, relay)
        hub = Hub(connection, greeted_on="shell", heard=self.heard)
        self._opening = started.generation, hub
        if self._exited >= started.generation:
            hub.fail(KernelDied(Death("exit", "the kernel ended while it started")))
        try:
            await hub.open(seconds)
            if hub.resumed:
                self._on_event(SecondConnected(hub, self.runtime))
            if self.prelude and not any(map(hub.runs_here, hub.taken_runs.values())):
                await self._send_prelude(hub, seconds)
        except BaseException:
            await hub.aclose()
            raise
        finally:
            self._opening = None
        self._hub, self._generation = hub, started.generation
        if not hub.resumed:
            self._on_event(SecondConnected(hub, self.runtime))
        return hub

    async def _send_prelude(self, hub: Hub, seconds: float) -> None:
        """Also to a kernel that an earlier process has used: it may have ended in between. Twice does nothing more."""
        hub.flow()
        prelude = execution.execute_request(self.prelude, silent=True)
        await hub.request("shell", "execute_request", prelude, deadline_seconds=seconds)

    async def send_interrupt(self, hub: Hub, why: Why = "request", run: str = "") -> None:
        """Ask the kernel to stop what it runs, or only this run, by a message; what cannot be said is not."""
        ask = functools.partial(hub.request, "control", "interrupt_request", {}, deadline_seconds=_INTERRUPT_SECONDS)
        with contextlib.suppress(KernelsError):
            try:
                await ask(carry=functools.partial(self.guest.interrupt_by_message, self.runtime, why, run))
            except GuestRefused:  # one of an older release
                await ask()

    async def prepare(self, hub: Hub) -> None:  # noqa: B027 - most kernels need nothing
        """Called before each run, once there is a kernel."""

    @abstractmethod
    async def start(self) -> KernelStarted:
        """Have the guest start one, or name the one that runs."""

    @abstractmethod
    async def kill(self) -> None:
        """Have the guest kill it."""

    @abstractmethod
    def name_socket(self, generation: int, number: int) -> str:
        """One of its sockets."""

    @abstractmethod
    def make_dialect(self) -> Dialect:
        """Its way of ending a run, for one run."""

    def _no_kernel(self, error: GuestRefused) -> Outcome:
        """The guest cannot start one: the image has none, or there is no room for its processes."""
        if error.code in ("no_deno", "not_found"):
            return Outcome("error", error=UserError("RuntimeNotFound", self.missing, []))
        return Outcome("died", death=Death("exit", f"no kernel for {self.title} could be started: {error}"))

    async def _kill_unless_ended(self, run: int) -> None:
        await asyncio.sleep(self._limits.interrupt_grace_seconds)
        if self._run == run and self._hub is not None:
            self._killed = run
            death = _unstoppable("the code was interrupted and", self._limits.interrupt_grace_seconds)
            await self._kill(self._hub, death)

    async def _kill(self, hub: Hub, death: Death) -> None:
        self._expected = death
        await self._kill_quietly()
        hub.fail(KernelDied(death))

    async def _kill_quietly(self) -> None:
        """One that has ended already needs no killing."""
        with contextlib.suppress(KernelsError):
            await self.kill()

    async def _bury(self, gone: KernelExit, hub: Hub) -> None:
        expected, busy = self._expected, self._run
        death = expected or await self._cause(gone)
        await hub.drain(_DRAIN_SECONDS)
        hub.fail(KernelDied(death))
        if expected is None and not busy:
            self._record_idle_death(death)

    def _record_idle_death(self, death: Death) -> None:
        self._lost = death
        self._on_event(SecondDied(self.title, death))

    def _own(self, work: object) -> None:
        task = asyncio.ensure_future(work)  # type: ignore[call-overload]
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _unstoppable(what: str, grace_seconds: float) -> Death:
    return Death(
        "deadline",
        f"{what} did not stop within {grace_seconds:g} s of an interrupt, so its kernel was killed; its globals are"
        " gone. The Python kernel goes on",
        signal="SIGKILL",
    )


def _how(gone: KernelExit) -> str:
    return gone.signal or f"exit status {gone.exit_code}"
