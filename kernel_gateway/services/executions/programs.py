"""Programs in a live session that callers follow while they run, write to and signal. Each is recorded as a command.

One task reads what a program puts out, keeps head and tail of it for the record, and hands it to those who follow. A
follower that does not read makes the program wait, for as long as it is connected; without followers it runs on.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import shlex
import weakref
from base64 import b64encode
from collections.abc import AsyncGenerator, AsyncIterator

import structlog
from msgspec.structs import replace

from kernel_gateway.errors import (
    GatewayError,
    LimitReached,
    NotFound,
    SandboxUnavailable,
    SessionTerminated,
    translate,
    translated,
)
from kernel_gateway.identity.principal import Principal
from kernel_gateway.services.admission.disk_room import DiskRoom
from kernel_gateway.services.admission.readiness import Readiness
from kernel_gateway.services.background import Background
from kernel_gateway.services.executions.commands import Commands
from kernel_gateway.services.results.outcomes import death_outcome
from kernel_gateway.services.sessions.live_session import LiveSession
from kernel_gateway.services.sessions.registry import Registry
from kernel_gateway.settings import Settings
from kernel_gateway.storage.executions import ExecutionRow, StoredOutcome, UnderWay
from kernels.errors import KernelsError, SandboxFailed, SandboxGone
from kernels.guest.processes.commands import MAX_OUTPUT_BYTES
from kernels.guest_client.client import GuestClient
from kernels.guest_client.programs import (
    ProgramEnd,
    ProgramEvent,
    ProgramOutput,
    ProgramRequest,
    ProgramStarted,
    RunningProgram,
)
from sandcell.models.commands import CommandRequest
from sandcell.models.executions import Truncated

log = structlog.get_logger(__name__)
MOST_FOLLOWERS = 16
"""Of one program."""
MOST_WAITING = 16
"""Pieces that wait for one follower, each of at most 32 KiB."""
MOST_BYTES_PER_SECOND = 8 * 1024 * 1024
"""Of output of one session's programs together, on average; they wait meanwhile."""
BURST_SECONDS = 1.0
SHELL = ("/bin/bash", "-l", "-c")
"""How callers run a line of shell: recorded as that line."""
LOGIN_SHELL = ("bash", "-l")
"""What is recorded where no command was given: its line, should the notebook run again."""
GONE = "gone"
"""The `reason` of an error that says that a program has ended with its sandbox."""
RETRY_SECONDS = 1.0
KILLED = 137
UNKNOWN = "the service has lost sight of the program, which may go on: follow it again"


class _Excerpt:
    """Head and tail of one stream."""

    def __init__(self, most_bytes: int) -> None:
        self._half = most_bytes // 2
        self._head = bytearray()
        self._tail = bytearray()
        self.cut_bytes = 0

    def add(self, data: bytes) -> None:
        room = self._half - len(self._head)
        self._head += data[:room]
        self._tail += data[max(room, 0) :]
        excess = len(self._tail) - self._half
        if excess > 0:
            del self._tail[:excess]
            self.cut_bytes += excess

    def text(self) -> str:
        cut = f"\n[... {self.cut_bytes} bytes cut ...]\n".encode() if self.cut_bytes else b""
        return (self._head + cut + self._tail).decode(errors="replace")


class Pace:
    """How fast output of one session's programs is taken. Pure.

    A program that floods, with nobody to follow it perhaps, would otherwise keep the service busy for itself alone.
    """

    def __init__(self) -> None:
        self._paid_until = 0.0

    def take(self, size: int, now: float) -> float:
        """For how many seconds to wait after so many bytes."""
        self._paid_until = max(self._paid_until, now - BURST_SECONDS) + size / MOST_BYTES_PER_SECOND
        return max(0.0, self._paid_until - now)


class _Program:
    """One that is read here, with its followers."""

    def __init__(
        self, pid: int, events: AsyncGenerator[ProgramEvent], row: ExecutionRow | None, *, attended: bool
    ) -> None:
        self.pid = pid
        self.execution = "" if row is None else row.id
        self.attended = attended or (row is not None and row.unfollowed_seconds > 0)
        self.events = events
        self._followers: set[asyncio.Queue[ProgramEvent | GatewayError]] = set()
        self._last: ProgramEvent | GatewayError | None = None

    async def hand_on(self, event: ProgramEvent | GatewayError) -> None:
        if isinstance(event, ProgramEnd | GatewayError):
            self._last = event
        for queue in tuple(self._followers):
            # A follower that leaves empties its queue, which lets this go on.
            await queue.put(event)

    def join(self) -> asyncio.Queue[ProgramEvent | GatewayError]:
        """A queue of what comes from now on; raises LimitReached."""
        if len(self._followers) >= MOST_FOLLOWERS:
            raise LimitReached(f"{MOST_FOLLOWERS} callers follow this program", retry_after_seconds=RETRY_SECONDS)
        queue: asyncio.Queue[ProgramEvent | GatewayError] = asyncio.Queue(MOST_WAITING)
        if self._last is None:
            self._followers.add(queue)
        else:
            queue.put_nowait(self._last)
        return queue

    def leave(self, queue: asyncio.Queue[ProgramEvent | GatewayError]) -> None:
        """Hand nothing more to this queue; a hand-over that waits for room in it goes through."""
        self._followers.discard(queue)
        while not queue.empty():
            queue.get_nowait()

    def follow(self) -> AsyncIterator[ProgramEvent]:
        """What comes from now on; raises LimitReached."""
        queue = self.join()
        events = self._events_of(queue)
        # A generator that nobody has begun to read does not clean up by itself: its client left before the answer.
        weakref.finalize(events, self.leave, queue).atexit = False
        return events

    async def _events_of(self, queue: asyncio.Queue[ProgramEvent | GatewayError]) -> AsyncGenerator[ProgramEvent]:
        try:
            yield ProgramStarted(self.pid, self.execution)
            while True:
                event = await queue.get()
                if isinstance(event, GatewayError):
                    raise event
                yield event
                if isinstance(event, ProgramEnd):
                    return
        finally:
            self.leave(queue)


class Programs:
    """The verbs on programs; a caller who goes away ends none."""

    def __init__(
        self,
        *,
        settings: Settings,
        commands: Commands,
        readiness: Readiness,
        disk_room: DiskRoom,
        background: Background,
        registry: Registry,
    ) -> None:
        self._settings = settings
        self._commands = commands
        self._readiness = readiness
        self._disk_room = disk_room
        self._background = background
        self._registry = registry
        self._known: dict[tuple[str, int], _Program] = {}
        self._locks: weakref.WeakKeyDictionary[LiveSession, asyncio.Lock] = weakref.WeakKeyDictionary()
        self._paces: weakref.WeakKeyDictionary[LiveSession, Pace] = weakref.WeakKeyDictionary()

    async def start(
        self,
        principal: Principal,
        session_id: str,
        request: ProgramRequest,
        *,
        face: str,
        lease: str | None = None,
        unfollowed_seconds: float = 0.0,
    ) -> AsyncIterator[ProgramEvent]:
        """Start one and follow it: its start first, its end last. Await it for what keeps it from starting.

        `unfollowed_seconds` is only kept for who looks after it, over a restart of the service as well. Raises
        SessionBusy while another than the caller's `lease` lasts.
        """
        self._readiness.require_accepting()
        live = await self._registry.require(principal, session_id)
        live.require_unleased(lease)
        self._disk_room.require()
        row = self._make_row(live, request, principal, face)
        row = replace(row, under_way=UnderWay(program=True, unfollowed_seconds=unfollowed_seconds))
        return await self._background.carry_out(self._start(live, request, row), f"program in {live.id}")

    async def _start(
        self, live: LiveSession, request: ProgramRequest, row: ExecutionRow
    ) -> AsyncIterator[ProgramEvent]:
        with translated(), live.in_use():
            guest = (await live.sandbox.ready()).guest
            row = await self._commands.begin(live, row)
            request = dataclasses.replace(
                request, execution=row.id, output_bytes=min(self._settings.stored_text_bytes, MAX_OUTPUT_BYTES)
            )
            try:
                # The guest lists it before it is known here: who finds it there waits, and takes no reader's place.
                async with self._lock(live):
                    return self._take_on(live, *await _start_in(guest, request), row)
            except KernelsError as error:
                outcome = StoredOutcome(why=f"it did not start: {error}"[:1_000])
                await self._commands.finish(live, replace(row, status="error", outcome=outcome))
                raise

    def _lock(self, live: LiveSession) -> asyncio.Lock:
        """Held from when the guest is asked for a program's stream, which has one reader, until it is known here."""
        return self._locks.setdefault(live, asyncio.Lock())

    def _take_on(
        self,
        live: LiveSession,
        events: AsyncGenerator[ProgramEvent],
        pid: int,
        row: ExecutionRow | None,
        *,
        attended: bool = False,
    ) -> AsyncIterator[ProgramEvent]:
        """Read the program from now on, and follow it."""
        program, key = _Program(pid, events, row, attended=attended), (live.id, pid)
        self._known[key] = program
        followed = program.follow()
        reading = self._background.spawn(self._read(live, program, row), f"program {program.pid} in {live.id}")
        reading.add_done_callback(lambda _: self._known.pop(key, None) if self._known.get(key) is program else None)
        return followed

    async def _read(self, live: LiveSession, program: _Program, row: ExecutionRow | None) -> None:
        """Where it is not known how the program ended, or whether, its row stays open: it may go on and be followed.

        Such rows end with the session, or the next start of the service says of them that they were cut off.
        """
        half = self._settings.command_output_bytes
        kept = {name: _Excerpt(half) for name in ("stdout", "stderr")}
        end: ProgramEnd | GatewayError = SandboxUnavailable(UNKNOWN)
        gone = False
        try:
            try:
                with live.in_use(attended=program.attended):
                    end = await self._read_to_end(live, program, kept) or end
            except SandboxGone:
                # Unless it is this process that ends, and lets the sandbox go: the next one takes the program up.
                gone = not live.paused or live.ending is not None
                end = SandboxUnavailable("the program's sandbox is gone", **({"reason": GONE} if gone else {}))
            except Exception as error:
                end = translate(error)
            if row is not None and (gone or isinstance(end, ProgramEnd | SessionTerminated)):
                await self._finish(live, row, kept, end)
        finally:
            await program.hand_on(end)

    async def _read_to_end(self, live: LiveSession, program: _Program, kept: dict[str, _Excerpt]) -> ProgramEnd | None:
        """Hand on what it puts out; None when that stops before the program has ended."""
        pace, clock = self._paces.setdefault(live, Pace()), asyncio.get_running_loop().time
        async with contextlib.aclosing(program.events) as events:
            async for event in events:
                if isinstance(event, ProgramEnd):
                    return event
                if isinstance(event, ProgramOutput):
                    kept["stderr" if event.stream == "stderr" else "stdout"].add(event.data)
                    if wait := pace.take(len(event.data), clock()):
                        await asyncio.sleep(wait)
                await program.hand_on(event)
        return None

    async def _finish(
        self, live: LiveSession, row: ExecutionRow, kept: dict[str, _Excerpt], end: ProgramEnd | GatewayError
    ) -> None:
        stdout, stderr = kept["stdout"].text(), kept["stderr"].text()
        if isinstance(end, GatewayError):
            row = replace(row, status="died", outcome=death_outcome("sandbox", end.message))
        else:
            status = (
                "timeout" if end.timed_out else "interrupted" if end.signal else "ok" if not end.exit_code else "error"
            )
            outputs = [
                {"output_type": "stream", "name": name, "text": text}
                for name, text in (("stdout", stdout), ("stderr", stderr))
                if text
            ]
            truncated = Truncated(stdout=kept["stdout"].cut_bytes, stderr=kept["stderr"].cut_bytes)
            outcome = StoredOutcome(
                stdout=stdout, stderr=stderr, outputs=outputs, truncated=truncated, exit_code=end.exit_code
            )
            row = replace(row, status=status, outcome=outcome, ended_number=live.sandbox.flushes.next_number())
            if end.exit_code == KILLED and live.sandbox.kernel is not None:
                live.sandbox.kernel.note_life()
        row = await self._commands.finish(live, row)
        live.sandbox.flushes.request(row)

    async def follow(
        self, principal: Principal, session_id: str, *, pid: int | None, tag: str | None = None
    ) -> AsyncIterator[ProgramEvent]:
        """Follow one that runs, from now on; raises NotFound."""
        live = await self._registry.require(principal, session_id)
        return await self.follow_in(live, await self._find_pid(live, pid, tag))

    async def follow_in(
        self, live: LiveSession, number: int, *, attended: bool = False, again: bool = False
    ) -> AsyncIterator[ProgramEvent]:
        """The same by its pid, for any caller; `attended`: see `LiveSession.in_use`.

        With `again` one that is not followed here begins with what its guest has told last: to an earlier process.
        """
        async with self._lock(live):
            known = self._known.get((live.id, number))
            if known is not None:
                return known.follow()
            with translated():  # the service has restarted since it was started, or has lost sight of it
                events = await (await self._guest(live)).follow_program(number, again=again)
            return self._take_on(live, events, number, None, attended=attended)

    async def list_running(self, principal: Principal, session_id: str) -> list[RunningProgram]:
        """Those that run."""
        return await self.list_in(await self._registry.require(principal, session_id))

    async def send_input(
        self, principal: Principal, session_id: str, data: bytes, *, pid: int | None, tag: str | None = None
    ) -> None:
        """Raises NotFound, Conflict when it takes none, LimitReached when it has not read what was sent before."""
        await self._tell(principal, session_id, pid, tag, "input", data=b64encode(data).decode())

    async def close_input(self, principal: Principal, session_id: str, *, pid: int | None, tag: str | None) -> None:
        await self._tell(principal, session_id, pid, tag, "close-input")

    async def signal(
        self, principal: Principal, session_id: str, name: str, *, pid: int | None, tag: str | None = None
    ) -> None:
        """SIGKILL or SIGTERM, for it and all that it has started."""
        await self._tell(principal, session_id, pid, tag, "signal", signal=name)

    async def resize(
        self, principal: Principal, session_id: str, size: tuple[int, int], *, pid: int | None, tag: str | None = None
    ) -> None:
        """Another size of its terminal, in columns and rows."""
        await self._tell(principal, session_id, pid, tag, "size", size=list(size))

    async def _tell(
        self, principal: Principal, session_id: str, pid: int | None, tag: str | None, action: str, **content: object
    ) -> None:
        live = await self._registry.require(principal, session_id)
        await self.tell_in(live, await self._find_pid(live, pid, tag), action, **content)

    async def tell_in(self, live: LiveSession, number: int, action: str, **content: object) -> None:
        """What `GuestClient.tell_program` has, for any caller."""
        with translated(), live.in_use():
            await (await self._guest(live)).tell_program(number, action, **content)

    async def _find_pid(self, live: LiveSession, pid: int | None, tag: str | None) -> int:
        if pid is not None:
            return pid
        found = [each.pid for each in await self.list_in(live) if each.tag == tag]
        if not tag or not found:
            raise NotFound("no program with this tag runs here")
        return found[0]

    async def list_in(self, live: LiveSession, *, ended: bool = False) -> list[RunningProgram]:
        """The same, for any caller; with `ended` those as well that have ended a moment ago."""
        if live.sandbox.kernel is None:
            return []
        with translated():
            found = await live.sandbox.kernel.guest.list_programs()
        return [each for each in found if ended or not each.ended]

    async def _guest(self, live: LiveSession) -> GuestClient:
        """The guest of the sandbox that there is: a program of an earlier one is gone."""
        if live.sandbox.kernel is None:
            raise NotFound("no program runs here")
        return live.sandbox.kernel.guest

    def _make_row(self, live: LiveSession, request: ProgramRequest, principal: Principal, face: str) -> ExecutionRow:
        command = list(request.command)
        line = command[3] if tuple(command[:3]) == SHELL and len(command) == 4 else shlex.join(command or LOGIN_SHELL)
        wanted = CommandRequest(command=line, timeout_seconds=request.timeout_seconds)
        return self._commands.make_row(live, wanted, request.timeout_seconds, author=principal.name, face=face)


async def _start_in(guest: GuestClient, request: ProgramRequest) -> tuple[AsyncGenerator[ProgramEvent], int]:
    """What a program says that has been started, and its pid."""
    events = await guest.start_program(request)
    try:
        started = await anext(events, None)
        if isinstance(started, ProgramStarted):
            return events, started.pid
        raise SandboxFailed("the sandbox does not say which program has started")
    except BaseException:
        await events.aclose()
        raise
