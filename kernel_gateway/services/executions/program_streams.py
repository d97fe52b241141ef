"""Programs that people and clients work in over the REST face. The end of their output is kept for later followers.

A program is read once, however many callers follow it, into a transcript of bounded size. A follower has a position in
that, in bytes, and names it after its connection broke. One that does not read makes the program wait, as long as it is
connected. A program that was started here and that nobody follows for a while is ended.
"""

from __future__ import annotations

import asyncio
import posixpath
import weakref
from base64 import b64decode, b64encode
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import suppress
from typing import NamedTuple

import msgspec
import structlog

from kernel_gateway.errors import (
    Conflict,
    GatewayError,
    InvalidRequest,
    LimitReached,
    NotFound,
    SandboxUnavailable,
    SessionTerminated,
    translate,
)
from kernel_gateway.identity.principal import Principal
from kernel_gateway.services.background import Background
from kernel_gateway.services.executions.programs import (
    GONE,
    LOGIN_SHELL,
    MOST_FOLLOWERS,
    RETRY_SECONDS,
    UNKNOWN,
    Programs,
)
from kernel_gateway.services.records.record import Record
from kernel_gateway.services.sessions.live_session import LiveSession
from kernel_gateway.services.sessions.registry import Registry
from kernel_gateway.settings import Settings
from kernel_gateway.storage.executions import ExecutionRow
from kernels.guest_client.programs import ProgramEnd, ProgramEvent, ProgramOutput, ProgramRequest, ProgramStarted
from sandcell.models.commands import Program, ProgramEnded, ProgramInput, Signal, StartProgram, TerminalSize
from sandcell.models.executions import Event
from sandcell.models.workspaces import WORKSPACE

log = structlog.get_logger(__name__)
KEPT_BYTES = 256 * 1024
"""Of what one program has put out."""
PIECE_BYTES = 32 * 1024
MOST_PIECES = 1_024
"""In a transcript: each change between output and errors begins one."""
MOST_ENDED = 4
"""Programs of one session that have ended and that can still be followed."""
HANG_UP_SECONDS = 5.0
"""From the SIGHUP to the SIGKILL of a program that nobody follows."""
FLUSH_SECONDS = 15.0
"""How often the files of a session are sent off while something happens in a program of it."""


class _Piece:
    """Output of one stream without a gap."""

    def __init__(self, start: int, stream: str, data: bytes) -> None:
        self.start = start
        self.stream = stream
        self.data = bytearray(data)

    @property
    def end(self) -> int:
        return self.start + len(self.data)


class Part(NamedTuple):
    """What a follower gets next: output up to the byte `end`, and how many bytes before it are no longer kept."""

    end: int
    stream: str
    data: bytes
    missed_bytes: int


class Transcript:
    """The last of what a program has put out; a position is how many bytes came before. Pure."""

    def __init__(self, end: int = 0) -> None:
        self.end = end
        """How much it has put out, as far as is known."""
        self._pieces: deque[_Piece] = deque()
        self._kept_bytes = 0

    @property
    def reached(self) -> int:
        """Up to where it has what came; what its guest says again is before the `end` that is known."""
        return self._pieces[-1].end if self._pieces else self.end

    @property
    def begin(self) -> int:
        """The first byte that is kept."""
        return self._pieces[0].start if self._pieces else self.end

    def add(self, stream: str, data: bytes, at: int | None = None) -> None:
        """The next output. `at`, where the guest gives it, is its position: bytes before that may have been lost."""
        last = self._pieces[-1] if self._pieces else None
        reached = last.end if last is not None else 0
        start = max(at, reached) if at is not None else max(self.end, reached)
        joins = last is not None and start == reached and stream == last.stream
        if last is not None and joins and len(last.data) + len(data) <= PIECE_BYTES:
            last.data += data
        else:
            self._pieces.append(_Piece(start, stream, data))
        self.end = max(self.end, start + len(data))
        self._kept_bytes += len(data)
        while self._kept_bytes > KEPT_BYTES or len(self._pieces) > MOST_PIECES:
            self._kept_bytes -= len(self._pieces.popleft().data)

    def read(self, position: int) -> Part | None:
        """What comes after so many bytes; None when nothing has come yet."""
        found: _Piece | None = None
        for piece in reversed(self._pieces):
            if piece.end <= position:
                break
            found = piece
        if found is None:
            return None
        begin = max(position, found.start)
        return Part(found.end, found.stream, bytes(found.data[begin - found.start :]), begin - position)


class _Follower(msgspec.Struct, eq=False):
    """A caller that follows, and up to which byte it has taken the output."""

    position: int


class _Stream:
    """One program that is read here."""

    def __init__(self, pid: int, shown: Program, transcript: Transcript) -> None:
        self.pid = pid
        self.shown = shown
        self.transcript = transcript
        self.followers: set[_Follower] = set()
        self.end: ProgramEnd | GatewayError | None = None
        self.news = asyncio.Event()
        """Set, and replaced, when anything about it has changed."""

    def tell(self) -> None:
        """Wake all that wait for news."""
        self.news.set()
        self.news = asyncio.Event()

    async def make_room(self, size: int) -> None:
        """Wait until the slowest follower has taken what so much more output would push out."""
        while self.followers:
            slowest = min(max(each.position, self.transcript.begin) for each in self.followers)
            if self.transcript.reached + size - slowest <= KEPT_BYTES:
                return
            await self.news.wait()

    def describe(self) -> Program:
        """It, as callers see it."""
        return msgspec.structs.replace(self.shown, followers=len(self.followers), ended=self.describe_end())

    def describe_end(self) -> ProgramEnded | None:
        """How it ended; None while it runs, and where that is not known."""
        if isinstance(self.end, ProgramEnd):
            return ProgramEnded(self.end.exit_code, self.end.signal, self.end.timed_out)
        if isinstance(self.end, GatewayError) and _is_gone(self.end):
            return ProgramEnded(why=self.end.message)
        return None

    async def follow(self, after: int) -> AsyncGenerator[Event]:
        """Its output after so many bytes, and its end; raises what has cut it off from here."""
        follower = _Follower(min(after, self.transcript.end))
        self.followers.add(follower)
        self.tell()
        try:
            while True:
                part, news = self.transcript.read(follower.position), self.news
                if part is not None:
                    if part.missed_bytes:
                        begin = follower.position + part.missed_bytes
                        yield Event(begin, "gap", {"missed_bytes": part.missed_bytes})
                    data = b64encode(part.data).decode()
                    yield Event(part.end, "output", {"stream": part.stream, "data": data})
                    follower.position = part.end  # not before the caller asks for more: now it has taken this part
                    self.tell()
                elif self.end is None:
                    await news.wait()
                else:
                    end = self.describe_end()
                    if end is None:
                        raise _error_of(self.end)
                    yield Event(follower.position, "ended", msgspec.to_builtins(end))
                    return
        finally:
            self.followers.discard(follower)
            self.tell()


class ProgramStreams:
    """The verbs of the REST face on programs."""

    def __init__(
        self, *, settings: Settings, programs: Programs, record: Record, background: Background, registry: Registry
    ) -> None:
        self._settings = settings
        self._programs = programs
        self._record = record
        self._background = background
        self._registry = registry
        self._streams: weakref.WeakKeyDictionary[LiveSession, dict[str, _Stream]] = weakref.WeakKeyDictionary()

    async def start(
        self, principal: Principal, session_id: str, request: StartProgram, *, lease: str | None
    ) -> Program:
        """Start one; raises InvalidRequest, SessionBusy while another than this lease lasts."""
        most = self._settings.task_timeout_seconds
        timeout = most if request.timeout_seconds is None else request.timeout_seconds
        if not 0 < timeout <= most:
            raise InvalidRequest(f"timeout_seconds must be more than 0 and at most {most:g}", field="timeout_seconds")
        if request.command and not request.command[0]:
            raise InvalidRequest("the first part of a command names the program to run", field="command")
        directory = posixpath.normpath(posixpath.join(WORKSPACE, request.directory))
        size = None if request.terminal is None else (request.terminal.columns, request.terminal.rows)
        asked = ProgramRequest(
            command=request.command,
            directory=directory,
            variables=request.variables,
            size=size,
            takes_input=request.input,
            timeout_seconds=timeout,
        )
        unfollowed = self._settings.program_unfollowed_seconds
        events = await self._programs.start(
            principal, session_id, asked, face="rest", lease=lease, unfollowed_seconds=unfollowed
        )
        started = await anext(events)
        if not isinstance(started, ProgramStarted):
            raise SandboxUnavailable("the program has not started")
        live = await self._registry.require(principal, session_id)
        shown = Program(started.execution, request.command or list(LOGIN_SHELL), directory, size is not None)
        stream = self._open(live, _Stream(started.pid, shown, Transcript()), events)
        self._look_after(live, stream.shown.id, unfollowed)
        return stream.describe()

    def take_up(self, live: LiveSession, row: ExecutionRow) -> None:
        """An earlier process started this program, which goes on: it ends if nobody follows it."""
        if row.unfollowed_seconds:
            self._look_after(live, row.id, row.unfollowed_seconds)

    async def list_running(self, principal: Principal, session_id: str) -> list[Program]:
        """Those that run, of every face that starts some."""
        live = await self._registry.require(principal, session_id)
        known = self._known(live)
        return [
            known[each.execution].describe()
            if each.execution in known
            else Program(each.execution, each.command, each.directory, each.terminal)
            for each in await self._programs.list_in(live)
            if each.execution
        ]

    async def get(self, principal: Principal, session_id: str, program_id: str) -> Program:
        """One that runs or ended a moment ago; raises NotFound."""
        live = await self._registry.require(principal, session_id)
        return (await self._find(live, program_id)).describe()

    async def follow(self, principal: Principal, session_id: str, program_id: str, after: int) -> AsyncIterator[Event]:
        """What it puts out after so many bytes, as far as that is kept; raises NotFound, LimitReached."""
        live = await self._registry.require(principal, session_id)
        stream = await self._find(live, program_id)
        if len(stream.followers) >= MOST_FOLLOWERS:
            raise LimitReached(f"{MOST_FOLLOWERS} callers follow this program", retry_after_seconds=RETRY_SECONDS)
        return stream.follow(after)

    async def send_input(
        self, principal: Principal, session_id: str, program_id: str, sent: ProgramInput, *, lease: str | None
    ) -> None:
        """Raises NotFound, Conflict when it takes none, LimitReached when it has not read what was sent before."""
        live = await self._registry.require(principal, session_id)
        live.require_unleased(lease)
        try:
            data = b64decode(sent.data, validate=True)
        except ValueError:
            raise InvalidRequest("data must be base64", field="data") from None
        stream = await self._find_running(live, program_id)
        if data:
            await self._programs.tell_in(live, stream.pid, "input", data=b64encode(data).decode())
        if sent.end:
            await self._programs.tell_in(live, stream.pid, "close-input")

    async def signal(self, principal: Principal, session_id: str, program_id: str, name: Signal) -> None:
        """Raises NotFound, Conflict once it has ended."""
        live = await self._registry.require(principal, session_id)
        stream = await self._find_running(live, program_id)
        await self._programs.tell_in(live, stream.pid, "signal", signal=name)

    async def resize(self, principal: Principal, session_id: str, program_id: str, size: TerminalSize) -> None:
        """Raises NotFound, Conflict when it has no terminal or has ended."""
        live = await self._registry.require(principal, session_id)
        stream = await self._find_running(live, program_id)
        await self._programs.tell_in(live, stream.pid, "size", size=[size.columns, size.rows])

    def _known(self, live: LiveSession) -> dict[str, _Stream]:
        return self._streams.setdefault(live, {})

    async def _find(self, live: LiveSession, program_id: str, *, attended: bool = False) -> _Stream:
        """The program as it is read here, from now on if it was not."""
        if (found := self._known(live).get(program_id)) is not None:
            return found
        for each in await self._programs.list_in(live, ended=True):
            if each.execution == program_id:
                shown = Program(program_id, each.command, each.directory, each.terminal)
                # What an earlier process has read and told nobody is in no other place.
                events = await self._programs.follow_in(live, each.pid, attended=attended, again=True)
                return self._open(live, _Stream(each.pid, shown, Transcript(each.said)), events)
        raise NotFound("no such program runs here; one that has ended is in the notebook")

    async def _find_running(self, live: LiveSession, program_id: str) -> _Stream:
        stream = await self._find(live, program_id)
        if stream.end is not None:  # another program may have its pid
            raise Conflict("the program has ended", session_id=live.id)
        return stream

    def _open(self, live: LiveSession, stream: _Stream, events: AsyncIterator[ProgramEvent]) -> _Stream:
        """Read it from now on, unless another caller has begun to."""
        known = self._known(live)
        if (faster := known.get(stream.shown.id)) is not None:
            return faster  # the events are left unread and go with their last reference
        known[stream.shown.id] = stream
        self._background.spawn(self._read(live, stream, events), f"stream of {stream.shown.id}")
        return stream

    async def _read(self, live: LiveSession, stream: _Stream, events: AsyncIterator[ProgramEvent]) -> None:
        end: ProgramEnd | GatewayError = SandboxUnavailable(UNKNOWN)
        try:
            async for event in events:
                if isinstance(event, ProgramOutput):
                    await stream.make_room(len(event.data))
                    stream.transcript.add(event.stream, event.data, event.at)
                    stream.tell()
                elif isinstance(event, ProgramEnd):
                    end = event
        except Exception as error:
            end = translate(error)
        finally:
            stream.end = end
            known = self._known(live)
            if stream.describe_end() is None:
                known.pop(stream.shown.id, None)  # the next follower asks the guest
            else:
                for old in [name for name, each in known.items() if each.end is not None][:-MOST_ENDED]:
                    del known[old]
            stream.tell()

    def _look_after(self, live: LiveSession, program_id: str, seconds: float) -> None:
        work = self._keep_watch(live, program_id, seconds)
        self._background.spawn(work, f"watch over {program_id}")

    async def _keep_watch(self, live: LiveSession, program_id: str, seconds: float) -> None:
        """Until it has ended: see to its files, and end it when nobody has followed it for so long."""
        while True:
            try:
                stream = await self._find(live, program_id, attended=True)
                await self._watch(live, stream, seconds)
                if stream.describe_end() is not None:
                    return
            except (NotFound, SessionTerminated):
                return
            except GatewayError as error:
                log.debug("program_not_watched", session=live.id, program=program_id, error=error.code)
            await asyncio.sleep(RETRY_SECONDS)

    async def _watch(self, live: LiveSession, stream: _Stream, seconds: float) -> None:
        clock = asyncio.get_running_loop().time
        left_at, flushed_at, flushed_to = clock(), clock(), stream.transcript.end
        while stream.end is None:
            news, now = stream.news, clock()
            if stream.followers:
                left_at = now
            if now - left_at >= seconds:
                await self._hang_up(live, stream, seconds)
                return
            if now - flushed_at >= FLUSH_SECONDS and stream.transcript.end != flushed_to:
                flushed_at, flushed_to = now, stream.transcript.end
                live.sandbox.flushes.request()
            wait = min(FLUSH_SECONDS, seconds if stream.followers else left_at + seconds - now)
            with suppress(TimeoutError):
                async with asyncio.timeout(wait):
                    await news.wait()

    async def _hang_up(self, live: LiveSession, stream: _Stream, seconds: float) -> None:
        """As when a terminal's line is lost: a shell hangs up on what it has started. What stays is killed."""
        line = " ".join(" ".join(stream.shown.command).split())[:100].replace("`", "'")
        await self._record.note(live, "program", f"**`{line}` was ended**: nobody had followed it for {seconds:g} s.")
        await self._programs.tell_in(live, stream.pid, "signal", signal="SIGHUP")
        with suppress(TimeoutError):
            async with asyncio.timeout(HANG_UP_SECONDS):
                while stream.end is None:
                    await stream.news.wait()
            return
        with suppress(NotFound):
            await self._programs.tell_in(live, stream.pid, "signal", signal="SIGKILL")
        while stream.end is None:
            await stream.news.wait()


def _is_gone(error: GatewayError) -> bool:
    """Whether the program has ended with its sandbox."""
    return isinstance(error, SessionTerminated) or error.details.get("reason") == GONE


def _error_of(end: ProgramEnd | GatewayError | None) -> GatewayError:
    return end if isinstance(end, GatewayError) else SandboxUnavailable(UNKNOWN)
