"""Variables that outlive their kernel: written down in the sandbox once the session is idle, taken up by the next one.

A kernel that died gets a successor in the same sandbox, whose disk has them. Where the sandbox was lost they are
brought from its disk to the next one's, and where it was hibernated from the store. Nothing is taken up after a restart
that somebody asked for. The session says when they are written, or else its environment.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol, cast

import msgspec
import structlog

from kernel_gateway.errors import GatewayError, SandboxUnavailable
from kernel_gateway.services.background import Background
from kernel_gateway.services.clock import rfc3339
from kernel_gateway.services.environments.egress import Find
from kernel_gateway.services.mirroring.carried_variables import CarriedVariables
from kernel_gateway.services.results.jobs import Job
from kernel_gateway.storage.hibernations import HibernationRow
from kernels.environment import Environment
from kernels.errors import DeadlineExceeded, Death, KernelDied, KernelsError
from kernels.execution import kept_variables
from kernels.execution.hub import Hub
from kernels.languages import PYTHON
from kernels.sandboxed.deaths import GLOBALS_GONE
from kernels.sandboxed.sandboxed_kernel import SandboxedKernel
from sandcell.models.sessions import KeepVariables, Restored, RestoredVariable

if TYPE_CHECKING:
    from kernel_gateway.services.sessions.live_session import LiveSession

log = structlog.get_logger(__name__)

KEEP_SECONDS: Final = 30.0
"""After how long no further variable is begun where somebody has asked for all of them, and what goes on is ended."""
IDLE_SECONDS: Final = 1.0
"""After the last code has ended: callers that come back at once are not held up."""
BACK_OFF: Final = 20.0
"""What has taken so much of a processor is not looked at again for so many times as long."""
LOOK_SECONDS: Final = kept_variables.KEEP_SECONDS + 1.0
"""After how long a value's own code that has not come to an end is ended."""
MEMORY_SECONDS: Final = 1.0
"""How long what is free of a sandbox's memory is not asked for again: its kernel counts what it takes itself since."""
OF_ITSELF: Final = ("exit", "signal", "oom")
"""Causes of a kernel's death that its own code may be: a value's, which ran as it was written down."""
NO_GENERATION: Final = -1
"""Of what no kernel of this sandbox has kept."""
MOST_TOLD: Final = 100
"""Variables in a report."""
OUTCOMES: Final = ("lost", "stale", "copied", "restored")
"""In the order of a report."""
NAMES_IN_A_NOTE: Final = 10
SETTLE_SECONDS: Final = 60.0
"""How long code that is to run elsewhere in its kernel waits for what is being kept, which has deadlines of its own."""
RESTORED: Final = "**Variables restored:**"
"""How the note begins on a kernel that has them; replays look for it."""
LOST_SANDBOX: Final = "the sandbox was lost, and with it what was kept of its variables"
NOT_CARRIED: Final = "the sandbox was lost, and what was kept of its variables cannot be brought from its disk: {error}"
NOTHING_KEPT: Final = "the sandbox was lost before anything was kept of its kernel's variables"
LOST_LATE: Final = "code ran in the next kernel before it could be given what was kept"
UNREADABLE: Final = "what was kept of them cannot be read"
UNSURE: Final = "{error}; some of them may be there nonetheless"


class _Kept(msgspec.Struct, frozen=True):
    """What was written down, or may have been: where, by which generation, when, and after how many executions."""

    kernel: SandboxedKernel | None
    """None of a sandbox that is lost."""
    generation: int
    at: float | None = None
    executions: int | None = None
    """None where an earlier process of the service saw to it: the files say."""
    count: int = 0
    """How many variables, where `at` is known."""
    from_elsewhere: bool = False
    """Of another session, or of an earlier state: what ran here since has nothing to do with them."""
    why_lost: str = LOST_SANDBOX
    """Where they are nowhere on this host."""

    def is_in(self, kernel: SandboxedKernel, generation: int) -> bool:
        """Whether this kernel has these variables: it kept them, or was given them."""
        return self.kernel is kernel and self.generation == generation


class _Room(msgspec.Struct):
    """What was free of the memory of a kernel's sandbox, by the loop's clock, and what that kernel held then."""

    hub: Hub
    at: float
    free_bytes: int
    held_bytes: int | None = None
    """Of the kernel's own process; None before it has said so, or where it cannot."""


class KeptElsewhere(Protocol):
    """Variables of sessions that gave up their sandbox: `hibernating/waking.py` has them in the store."""

    async def lay(self, live: LiveSession, kernel: SandboxedKernel) -> None:
        """Have the kernel's sandbox hold them; raises our errors."""

    async def spend(self, live: LiveSession, snapshot: HibernationRow) -> None:
        """They need not be kept any more; raises our errors."""


class SessionVariables:
    """Of one session. `note` stores a note for its notebook, with what is said of the session; it returns at once."""

    def __init__(
        self,
        live: LiveSession,
        *,
        default: KeepVariables,
        find_environment: Find,
        background: Background,
        elsewhere: KeptElsewhere,
        carried: CarriedVariables,
        note: Callable[[str], None],
    ) -> None:
        self.restored: Restored | None = live.row.record.restored
        """What the present kernel has of the one before; None of one that began blank."""
        self._live = live
        self._default = default
        self._find_environment, self._background = find_environment, background
        self._elsewhere, self._carried = elsewhere, carried
        self._note = note
        self._kernel: SandboxedKernel | None = None
        """By whose environment the next three are known."""
        self._mode: KeepVariables = "off"
        self._most_bytes = 0
        self._most_percent = 0
        """Of its memory that it may hold while it keeps variables, which takes some; 0: any."""
        self._kept: _Kept | None = None
        self._room: _Room | None = None
        self._keeping: asyncio.Task[None] | None = None
        self._watching = False
        """Whether a task waits for the session to be idle: one for as long as code comes and goes."""
        self._last_code = self._not_before = 0.0
        """When code has ended last, and before which its variables are not looked at again, by the loop's clock."""
        self._harmful = False
        """Whether a kernel has died while it kept them."""
        self._died_running = False
        """Whether code ran when the kernel before the present one ended."""
        self._restoring = asyncio.Lock()
        self._asked = False
        """Whether the kernel has been asked to keep them and has not answered."""
        self._own_id = ""
        """What that is known by; no two are, in whichever process of the service."""

    def take_up(self, kernel: SandboxedKernel) -> None:
        """Called once when this kernel was left by an earlier process, or was saved: it may have kept its variables.

        Or is still to be given those that were brought from a lost sandbox, which no kernel has had.
        """
        carried = self._carried.find(self._live.id)
        self._kept = _Kept(kernel, kernel.generation) if carried is None else _Kept(None, carried)
        kernel.describe_loss = partial(self._describe_loss, kernel)

    def note_lost(self) -> None:
        """Called once when the sandbox of an earlier process is gone: the next is to have what it had kept."""
        if self._live.executions and self._live.snapshot is None:
            carried = self._carried.find(self._live.id)
            self._kept = _Kept(None, self._live.sandbox.generation if carried is None else carried)

    async def carry(self, sandbox_id: str, unread: str) -> None:
        """Called once nothing runs in a lost sandbox, before its disk goes: take what the next one is to have.

        `unread` says why the disk cannot be read, if it cannot.
        """
        if self._live.snapshot is not None:
            return
        if self._kept is None and self._kernel is not None and self._kernel.ran_in == self._live.sandbox.generation:
            # It may have kept them all the same: the stamp is written last, so where there is one all of it is there.
            self._kept = _Kept(None, self._kernel.ran_in)
        kept = self._kept
        if kept is None:
            return
        if kept.why_lost != LOST_SANDBOX or (kept.kernel is None and self._carried.find(self._live.id) is not None):
            return  # they are of the sandbox before: this one was lost before it was given them
        why = unread or await self._take(sandbox_id, kept.generation)
        if self._kept is kept:
            lost = NOTHING_KEPT if why is None else NOT_CARRIED.format(error=why)
            self._kept = msgspec.structs.replace(kept, kernel=None, why_lost=lost)

    async def _take(self, sandbox_id: str, generation: int) -> str | None:
        """In a sentence why what there is cannot be taken."""
        try:
            environment = await self._find_environment()
        except GatewayError as error:
            return error.message
        if self._choose_mode(environment) == "off":
            return None
        return await self._carried.take(self._live.id, sandbox_id, generation, self._find_most_bytes(environment))

    async def end_of(self, job: Job) -> None:
        """Code has ended: what it left is kept once nothing else comes, or where each time is asked for, now."""
        kernel = self._live.sandbox.kernel
        elsewhere = job.row.runtime != PYTHON or (job.context is not None and job.context.name)
        if kernel is None or job.row.started is None or elsewhere or not await self._learn(kernel):
            return
        self._let_go_of_late(kernel)
        self._last_code = asyncio.get_running_loop().time()
        if self._mode == "each":
            if self._keeping is not None:
                self._keeping.cancel()
            self._keeping = self._background.spawn(self._keep(kernel), f"variables of {self._live.id}")
            await asyncio.wait({self._keeping}, timeout=SETTLE_SECONDS)
        elif not self._watching:
            self._watching = True
            self._keeping = self._background.spawn(self._keep_when_idle(), f"variables of {self._live.id}")

    async def _learn(self, kernel: SandboxedKernel) -> bool:
        """Whether variables are to be kept; what decides it is looked for once for each sandbox."""
        if self._kernel is not kernel:
            try:
                environment = await self._find_environment()
            except GatewayError as error:
                log.warning("variables_not_kept", session=self._live.id, error=error.code)
                return False
            self._mode = self._choose_mode(environment)
            self._most_bytes = self._find_most_bytes(environment)
            self._most_percent = min(environment.memory_levels.percents, default=0)
            self._kernel = kernel
        return self._mode != "off" and not self._harmful

    def _choose_mode(self, environment: Environment) -> KeepVariables:
        declared = cast("KeepVariables | None", environment.keep_variables)
        return self._live.row.record.keep_variables or declared or self._default

    def _find_most_bytes(self, environment: Environment) -> int:
        return (self._live.row.record.keep_variables_mb or environment.keep_variables_mb) << 20

    def _let_go_of_late(self, kernel: SandboxedKernel) -> None:
        """Code has run in a kernel that could not be given what was kept: that is older than what there is now."""
        kept = self._kept
        if kept is not None and kept.kernel in (kernel, None) and kernel.ran_in > kept.generation:
            self._kept = None
            self._carried.remove(self._live.id)
            self._tell(Restored(kernel.ran_in, *self._age(kept.at, kept.executions), why=LOST_LATE))

    def _age(self, at: float | None, executions: int | None) -> tuple[str | None, int | None]:
        """Since when, and for how many executions; what is not known is None."""
        later = None if executions is None else max(self._live.executions - executions, 0)
        return None if at is None else rfc3339(at), later

    async def settle(self) -> None:
        """Called before the names of the kernel become others: wait for what is being kept, begin nothing more."""
        keeping = self._keeping
        if keeping is None:
            return
        if not self._asked:
            keeping.cancel()
        await asyncio.wait({keeping}, timeout=SETTLE_SECONDS)
        if keeping.done():
            self._watching = False  # one that was cancelled before its first step has not said so

    def note_replaced(self, death: Death | None) -> None:
        """The kernel was replaced; one that was restarted on request leaves nothing to the next."""
        self.restored = None
        self._died_running = self._live.running is not None
        if death is None or death.cause == "restart":
            self.forget()

    async def restore(self, kernel: SandboxedKernel) -> None:
        """Called before code runs: give a kernel what the one before it left, and say what became of it.

        What the store has for it comes first, and is let go of once it was tried. Raises our errors.
        """
        kernel.describe_loss = partial(self._describe_loss, kernel)
        self._make_way(kernel)
        async with self._restoring:
            snapshot = self._live.snapshot
            if snapshot is None or kernel.hub is None:
                return await self._restore(kernel)
            await self._elsewhere.lay(self._live, kernel)
            laid = self._kept = _Kept(kernel, NO_GENERATION, snapshot.since, snapshot.executions)
            await self._restore(kernel)
            if self._kept is not laid:
                await self._elsewhere.spend(self._live, snapshot)
            return None

    async def keep_now(self, kernel: SandboxedKernel, most_bytes: int) -> list[kept_variables.KeptVariable]:
        """Have them written down while nothing runs, whether or not they are kept otherwise; says what of each name.

        Raises our errors and those of `kernels`.
        """
        await self.settle()
        await self.restore(kernel)  # what it has not been given yet is its own all the same
        hub, executions, at = kernel.hub, self._live.executions, self._live.now()
        if hub is None:
            raise SandboxUnavailable("the kernel is being replaced: try again")
        end_id = uuid.uuid4().hex
        ending = asyncio.get_running_loop().call_later(KEEP_SECONDS, _end_late_look, hub, end_id)
        try:
            found = await kept_variables.keep(
                hub, most_bytes, KEEP_SECONDS, executions=executions, at=at, end_id=end_id
            )
        finally:
            ending.cancel()
        if await self._learn(kernel) and kernel.hub is hub:
            self._kept = _Kept(kernel, hub.generation, at, executions, _count(found) or 0)
        return found.variables

    async def take_over(self, kernel: SandboxedKernel, at: float, lay: Callable[[], Awaitable[None]]) -> None:
        """Give a blank kernel variables as they were at a time elsewhere, which `lay` puts into its sandbox.

        `restored` says what became of them. Raises our errors.
        """
        async with self._restoring:
            await lay()
            self._kept = _Kept(kernel, NO_GENERATION, at, from_elsewhere=True)
            await self._restore(kernel)

    def _make_way(self, kernel: SandboxedKernel) -> None:
        """What is being kept because the session was idle is given up for now: it is no longer."""
        if self._mode == "on_idle":
            self._end_look(kernel)

    def code_waits(self) -> None:
        """Called as code gets its place in the queue: what is being kept, which it waits for, is hastened."""
        kernel = self._live.sandbox.kernel
        if self._mode == "each" and self._asked and kernel is not None and kernel.hub is not None:
            with suppress(KernelsError):  # it is being replaced
                kept_variables.hasten(kernel.hub, self._own_id)

    def _end_look(self, kernel: SandboxedKernel) -> None:
        """Have what is being kept come to an end. Raises our errors."""
        if self._asked and kernel.hub is not None:
            kept_variables.stop(kernel.hub, self._own_id)

    def forget(self) -> None:
        """The next kernel is to be blank, as somebody has asked for."""
        self._kept = None
        self._carried.remove(self._live.id)
        snapshot, self._live.snapshot = self._live.snapshot, None
        if snapshot is not None:
            self._background.spawn(self._elsewhere.spend(self._live, snapshot), f"variables of {self._live.id}")

    def leave(self) -> None:
        """The session has no kernel any more: what it had of an earlier one is told no longer."""
        self._kept = self._kernel = self._room = self.restored = None

    async def _restore(self, kernel: SandboxedKernel) -> None:
        kept, hub = self._kept, kernel.hub
        if kept is None or hub is None or kept.is_in(kernel, hub.generation):
            return
        self._kept = None  # a kernel that dies of them is not given them again
        age = self._age(kept.at, kept.executions)
        # Where nothing is kept, the kernel after this one is to be blank, too.
        forget = not await self._learn(kernel) and self._kernel is kernel
        if kept.at is None and forget:
            return  # what an earlier process has left there was for a checkpoint
        if kept.kernel is not kernel and not await self._lay_carried(kernel, kept, hub.generation):
            return
        try:
            # Kernels are counted from 1: what has no such generation is whichever the directory has.
            expected = kept.generation if kept.generation > 0 else None
            found = await kept_variables.restore(hub, expected=expected, forget=forget)
        except KernelsError as error:
            why = UNSURE.format(error=error) if isinstance(error, DeadlineExceeded) else str(error)
            self._tell(Restored(hub.generation, *age, why=why))
            return
        if not found.found:
            if kept.at is not None or kept.kernel is None:
                why = UNREADABLE if kept.at is not None else NOTHING_KEPT
                self._tell(Restored(hub.generation, *age, why=why))
            return
        at = kept.at if found.at is None else found.at
        executions = kept.executions if found.executions is None else found.executions
        if kept.from_elsewhere:
            at, executions = kept.at, self._live.executions
        count = sum(each.outcome != "lost" for each in found.variables)
        self._kept = None if forget else _Kept(kernel, hub.generation, at, executions, count)
        self._tell(self._report(hub.generation, *self._age(at, executions), found.variables))

    async def _lay_carried(self, kernel: SandboxedKernel, kept: _Kept, generation: int) -> bool:
        """Have its sandbox hold what was brought from the one before; tells why not, and says whether it does."""
        live, carried = self._live, self._carried
        why: str | None = kept.why_lost
        if carried.find(live.id) == kept.generation:
            try:
                if await carried.is_next(live.id, kept.generation):  # else another gateway has had the session since
                    await carried.lay(kernel.guest, live.id)
                    why = None
            except GatewayError as error:
                why = NOT_CARRIED.format(error=error.message)
            # Before a kernel has any of it: one that dies of them is not given them again, by no later process either.
            carried.remove(live.id)
        if why is not None:
            self._tell(Restored(generation, *self._age(kept.at, kept.executions), why=why))
        return why is None

    def _describe_loss(self, kernel: SandboxedKernel, gone: str) -> str:
        """What is `gone` if the kernel dies now, or its sandbox: the next is given what was kept of its variables."""
        kept = self._kept
        if kept is None or kept.kernel is not kernel or kernel.ran_in > kept.generation:
            return gone
        if kept.at is None:
            return f"{gone}, but for what was kept of its variables"
        if not kept.count:
            return gone
        variables = "the variable that was" if kept.count == 1 else f"the {kept.count:,} variables that were"
        given = "kernel is given" if gone == GLOBALS_GONE else "sandbox is given if they can be read"
        return f"{gone}, but for {variables} kept at {rfc3339(kept.at)}, which the next {given}"

    def _report(
        self, generation: int, as_of: str | None, later: int | None, found: Sequence[kept_variables.RestoredVariable]
    ) -> Restored:
        """Those that are there are stale when an execution has ended since, besides the one that died."""
        stale = later is None or later > self._died_running
        told = [
            RestoredVariable(each.name, "stale" if stale and each.outcome != "lost" else each.outcome, each.why or None)
            for each in found
        ]
        told.sort(key=lambda each: OUTCOMES.index(each.outcome))
        return Restored(generation, as_of, later, told[:MOST_TOLD], max(len(told) - MOST_TOLD, 0))

    def _tell(self, restored: Restored) -> None:
        restored.processes_lost = self._live.sandbox.not_restored
        self.restored = restored
        log.info("variables_restored", session=self._live.id, generation=restored.generation, why=restored.why)
        self._note(_describe(restored))

    async def _keep_when_idle(self) -> None:
        """Called once for many executions: those of a busy session cost nothing more."""
        loop = asyncio.get_running_loop()
        try:
            seen = None
            while seen != self._last_code:
                # An event would be one more thing for each execution.
                while (left := max(self._last_code + IDLE_SECONDS, self._not_before) - loop.time()) > 0:  # noqa: ASYNC110
                    await asyncio.sleep(left)
                seen, kernel = self._last_code, self._live.sandbox.kernel
                if kernel is not None:
                    await self._keep_if_idle(kernel)
        finally:
            self._watching = False

    async def _keep_if_idle(self, kernel: SandboxedKernel) -> None:
        if await self._learn(kernel) and not self._live.busy:
            await self._keep(kernel)

    async def _keep(self, kernel: SandboxedKernel) -> None:
        each, loop = self._mode == "each", asyncio.get_running_loop()
        room = None if kernel.residence.stopped else await self._find_room(kernel)
        hub, kept = kernel.hub, self._kept
        if room is None or room.hub is not hub or (self._live.busy and not each) or kernel.residence.stopped:
            return
        if kept is not None and not kept.is_in(kernel, hub.generation):
            return  # it is to be given those of the one before first, which keeping would remove
        executions, at, self._asked = self._live.executions, self._live.now(), True
        self._own_id, began = uuid.uuid4().hex, loop.time()
        ending = loop.call_later(LOOK_SECONDS, _end_late_look, hub, self._own_id)
        if self._live.waiting:
            self.code_waits()
        try:
            found = await kept_variables.keep(
                hub,
                self._most_bytes,
                executions=executions,
                at=at,
                own_id=self._own_id,
                memory_bytes=room.free_bytes,
                held_bytes=room.held_bytes,
            )
        except KernelsError as error:
            self._harmful = isinstance(error, KernelDied) and error.death.cause in OF_ITSELF
            self._not_before = loop.time() + (loop.time() - began) * BACK_OFF
            log.warning("variables_not_kept", session=self._live.id, error=str(error))
            return
        finally:
            self._asked = False
            ending.cancel()
        room.held_bytes = room.held_bytes or found.held
        count = _count(found)
        self._room = room if count is not None and room.held_bytes else None
        # The kernel of an earlier release does not say how long it took.
        self._not_before = loop.time() + (found.seconds or loop.time() - began) * BACK_OFF
        if count is not None and self._kept is kept and kernel.hub is hub:  # else it was replaced as it answered
            self._kept = _Kept(kernel, hub.generation, at, executions, count)

    async def _find_room(self, kernel: SandboxedKernel) -> _Room | None:
        """How much it may take to pickle in; where that is none, what was kept before stays.

        It is not asked for each time that code may wait for: the launcher, its control group and its disk take longer
        to say so than a kernel takes to look at what is unchanged.
        """
        hub, now, room = kernel.hub, asyncio.get_running_loop().time(), self._room
        if self._mode == "each" and room is not None and room.hub is hub and now - room.at < MEMORY_SECONDS:
            return room
        self._room = None
        try:
            usage = await kernel.usage()
        except KernelsError:
            return None
        free = usage.memory_limit_bytes * (self._most_percent or 100) // 100 - usage.memory_held_bytes
        return _Room(hub, now, free) if hub is not None and free > 0 else None


def _end_late_look(hub: Hub, look_id: str) -> None:
    """A value's own code that has not come to an end is ended: else the session could never be hibernated or forked."""
    with suppress(KernelsError):  # it is being replaced
        kept_variables.stop(hub, look_id)


def _count(found: kept_variables.Kept) -> int | None:
    """How many variables are kept; None where those are that were before."""
    if found.kept is not None or not found.variables:
        return found.kept
    return sum(each.outcome == "kept" for each in found.variables)


def _describe(restored: Restored) -> str:
    """The note in the notebook. Names are code: whoever writes the session's code chooses them."""
    if restored.why is not None:
        return f"**Variables lost:** {restored.why}."
    by = {outcome: [each for each in restored.variables if each.outcome == outcome] for outcome in OUTCOMES}
    back = len(restored.variables) - len(by["lost"]) + restored.omitted
    later = restored.later
    since = "" if not later else f", {later:,} execution{'' if later == 1 else 's'} earlier"
    text = f"{RESTORED} {back:,}, as they were at {restored.as_of or 'a time not known'}{since}."
    for outcome, what in (("lost", "Lost"), ("copied", "No longer the same objects as in other variables or modules")):
        if by[outcome]:
            text += f" {what}: {_list_names(by[outcome])}."
    return text


def _list_names(variables: Sequence[RestoredVariable]) -> str:
    # The note is the service's own word: what is no name would be text of the kernel's in it.
    names = [each.name[:80] for each in variables if each.name.isidentifier()][:NAMES_IN_A_NOTE]
    named = ", ".join(f"`{name}`" for name in names) or "none that can be named"
    more = len(variables) - len(names)
    return f"{named} and {more:,} more" if more > 0 else named
