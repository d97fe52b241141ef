"""Programs that a caller follows while they run, writes to and signals: with pipes, or in a terminal.

What a program puts out waits for the caller in a bounded buffer. While somebody follows, a full buffer makes the
program wait; while nobody does, the oldest of it goes. What was told last stays besides, for a caller who comes in the
place of one that was killed, and its head and tail, where it was given the id of an execution. A program ends when its
process has: output is then drained until its pipes close, or shortly after when something that it left behind keeps
them open.
"""

from __future__ import annotations

import asyncio
import errno
import fcntl
import os
import signal
import struct
import termios
from base64 import b64encode
from collections import deque
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

from ..options import Options
from ..refusal import Refusal, refusal_of
from .capture import HeadTail
from .commands import KEPT_ANSWER_BYTES, KEPT_ANSWERS, MAX_OUTPUT_BYTES, find_shell
from .families import signal_all, signal_family
from .reaper import Exit, Reaper
from .spawn import Program, spawn

MAX_RUNNING = 32
MAX_KEPT = 32
"""Programs that have ended and whose end nobody has read yet."""
MAX_READ = 4
"""Of them those whose end was read, by somebody who may have been killed since."""
MAX_BUFFERED_BYTES = 256 * 1024
MAX_TOLD_BYTES = 256 * 1024
"""Of output that was told to somebody, for who comes next."""
MAX_INPUT_BYTES = 1024 * 1024
"""Of input that a program has not read yet."""
READ_BYTES = 32 * 1024
LAST_READS = 32
"""Of one pipe, once its program has ended."""
GRACE_SECONDS = 2.0
DRAIN_SECONDS = 0.25

Event = dict[str, Any]


class FollowedProgram:
    """One program. `described` is what lists say of it; its `pid` is the one that it sees itself."""

    def __init__(self, described: dict[str, Any], *, execution: str = "", output_bytes: int = 0) -> None:
        self.described = described
        self.execution = execution
        self.finished = asyncio.Event()
        self.streams = {"stdout": HeadTail(output_bytes), "stderr": HeadTail(output_bytes)}
        self.pid = 0
        self.ended = False
        self._loop = asyncio.get_running_loop()
        self._begun = self._loop.time()
        self._outputs: dict[int, str] = {}
        self._input = -1
        self._terminal = False
        self._unwritten = bytearray()
        self._closing_input = False
        self._events: deque[tuple[Event, int]] = deque()
        self._buffered = 0
        self._told: deque[tuple[Event, int]] = deque()
        self._told_bytes = 0
        self._said = 0
        self._changed = asyncio.Event()
        self._reader: object | None = None
        self._paused = False
        self._exit: Exit | None = None
        self._timed_out = False
        self._doomed: set[int] = set()
        self._timers: list[asyncio.TimerHandle] = []

    def start(
        self, program: Program, reaper: Reaper, *, size: tuple[int, int] | None, takes_input: bool, timeout: float
    ) -> None:
        """Start it: in a terminal of this size, or with pipes. Raises OSError."""
        theirs = self._open_terminal(program, size) if size else self._open_pipes(program, takes_input=takes_input)
        try:
            self.pid = spawn(program)
        except OSError:
            self._close_all()
            raise
        finally:
            for descriptor in theirs:
                os.close(descriptor)
        reaper.watch(self.pid, self._on_exit)
        for descriptor in {*self._outputs, *([self._input] if self._input >= 0 else [])}:
            os.set_blocking(descriptor, False)
        for descriptor in self._outputs:
            self._loop.add_reader(descriptor, self._on_readable, descriptor)
        self._add({"event": "start", "pid": self.pid}, 0)
        if timeout:
            self._later(timeout, self._time_out)

    def _open_pipes(self, program: Program, *, takes_input: bool) -> set[int]:
        theirs: set[int] = set()
        for name in ("stdout", "stderr"):
            mine, other = os.pipe()
            self._outputs[mine] = name
            theirs.add(other)
            setattr(program, name, other)
        if takes_input:
            program.stdin, self._input = os.pipe()
            theirs.add(program.stdin)
        return theirs

    def _open_terminal(self, program: Program, size: tuple[int, int]) -> set[int]:
        mine, other = os.openpty()
        os.fchown(other, program.user, program.user)
        self._outputs[mine], self._input, self._terminal = "pty", mine, True
        program.stdin = program.stdout = program.stderr = other
        program.in_terminal = True
        self.resize(*size)
        return {other}

    def resize(self, columns: int, rows: int) -> None:
        """Another size of its terminal."""
        if not self._terminal or self._input < 0:
            raise Refusal(409, "no_terminal", "the program has no terminal")
        fcntl.ioctl(self._input, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def send(self, data: bytes) -> None:
        """Give it input, as soon as it takes some."""
        if self._input < 0 or self._closing_input:
            raise Refusal(409, "no_input", "the program takes no input: it was started without, or it was closed")
        if len(self._unwritten) + len(data) > MAX_INPUT_BYTES:
            raise Refusal(429, "too_much_input", f"the program has not read {len(self._unwritten)} bytes of input yet")
        if not self._unwritten:
            self._loop.add_writer(self._input, self._on_writable)
        self._unwritten += data

    def close_input(self) -> None:
        """Let it read the end of its input once it has read what was sent; a terminal says so by Ctrl-D."""
        if self._terminal:
            return self.send(b"\x04")
        if self._input < 0:
            return None
        self._closing_input = True
        if not self._unwritten:
            self._close_input()
        return None

    def signal(self, number: int) -> None:
        """Signal it; SIGKILL and SIGTERM reach all that it has started."""
        if self._exit is not None:
            raise Refusal(404, "not_found", "the program has ended")
        if number in (signal.SIGKILL, signal.SIGTERM):
            signal_family(self.pid, number)
        else:
            signal_all([self.pid], number)

    def attach(self, *, again: bool = False) -> object:
        """The next reader takes the place of the one before; returns what `next` asks for.

        With `again` it begins with what was told last: the one before may have been killed with that.
        """
        self._reader = object()
        if again:
            self._events.extendleft(reversed(self._told))
            self._buffered += self._told_bytes
            self._told.clear()
            self._told_bytes = 0
        self._changed.set()
        return self._reader

    def detach(self, reader: object) -> None:
        """Nobody reads any more: the program does not wait."""
        if self._reader is reader:
            self._reader = None
            self._drop_oldest()
            self._resume()

    async def next(self, reader: object) -> Event | None:
        """The next event; None once there is none, or another reads."""
        while self._reader is reader:
            if self._events:
                event, size = self._events.popleft()
                self._buffered -= size
                self._keep_told(event, size)
                self._resume()
                return event
            if self.ended:
                return None
            self._changed.clear()
            await self._changed.wait()
        return None

    def _keep_told(self, event: Event, size: int) -> None:
        if event["event"] == "start":
            return
        self._told.append((event, size))
        self._told_bytes += size
        while self._told_bytes > MAX_TOLD_BYTES:
            self._told_bytes -= self._told.popleft()[1]

    def report(self) -> dict[str, Any]:
        """How it ended and what it put out, as of a command that has ended; a terminal's output is stdout."""
        end, stdout, stderr = self._exit, self.streams["stdout"], self.streams["stderr"]
        stopped = end is not None and end.signal is not None
        return {
            "id": self.execution,
            "status": "timeout" if self._timed_out else "stopped" if stopped else "done",
            "stdout": stdout.text(),
            "stderr": stderr.text(),
            "exit_code": None if end is None else end.exit_code,
            "timed_out": self._timed_out,
            "duration_seconds": self._loop.time() - self._begun,
            "stdout_truncated": stdout.cut_bytes,
            "stderr_truncated": stderr.cut_bytes,
        }

    def describe(self) -> dict[str, Any]:
        """What lists say of it; `said` is how many bytes it has put out; one that has `ended` is still told of."""
        return {
            "pid": self.pid,
            **self.described,
            "execution": self.execution,
            "terminal": self._terminal,
            "said": self._said,
            "ended": self.ended,
        }

    @property
    def kept_bytes(self) -> int:
        return sum(each.kept_bytes for each in self.streams.values())

    @property
    def is_read(self) -> bool:
        """Whether it has ended and everything was read."""
        return self.ended and not self._events

    def _add(self, event: Event, size: int) -> None:
        self._events.append((event, size))
        self._buffered += size
        if self._buffered > MAX_BUFFERED_BYTES:
            if self._reader is None:
                self._drop_oldest()
            elif not self._paused:
                self._paused = True
                for descriptor in self._outputs:
                    self._loop.remove_reader(descriptor)
        self._changed.set()

    def _drop_oldest(self) -> None:
        while self._buffered > MAX_BUFFERED_BYTES:
            self._buffered -= self._events.popleft()[1]

    def _resume(self) -> None:
        if self._paused and self._buffered <= MAX_BUFFERED_BYTES // 2:
            self._paused = False
            for descriptor in self._outputs:
                self._loop.add_reader(descriptor, self._on_readable, descriptor)

    def _on_readable(self, descriptor: int) -> None:
        try:
            data = os.read(descriptor, READ_BYTES)
        except BlockingIOError:
            return
        except OSError as error:  # of a terminal that nobody has open any more
            if error.errno != errno.EIO:
                raise
            data = b""
        if data:
            self._say(descriptor, data)
        else:
            self._close_output(descriptor)
            self._finish_when_drained()

    def _say(self, descriptor: int, data: bytes) -> None:
        self.streams["stderr" if self._outputs[descriptor] == "stderr" else "stdout"].feed(data)
        # `at`: how much it had put out before, so that a reader who comes later knows what it has missed.
        event = {
            "event": "data",
            "stream": self._outputs[descriptor],
            "data": b64encode(data).decode(),
            "at": self._said,
        }
        self._said += len(data)
        self._add(event, len(data))

    def _on_writable(self) -> None:
        try:
            del self._unwritten[: os.write(self._input, self._unwritten)]
        except BlockingIOError:
            return
        except OSError:  # it reads no more
            self._unwritten.clear()
            self._closing_input = True
        if not self._unwritten:
            self._loop.remove_writer(self._input)
            if self._closing_input:
                self._close_input()

    def _time_out(self) -> None:
        if self._exit is None:
            self._timed_out = True
            self._doomed = signal_family(self.pid, signal.SIGTERM)
            self._later(GRACE_SECONDS, self._kill)

    def _kill(self) -> None:
        self._doomed |= signal_family(self.pid, signal.SIGKILL)
        signal_all(self._doomed, signal.SIGKILL)

    def _on_exit(self, end: Exit) -> None:
        self._exit = end
        self._later(DRAIN_SECONDS, self._drain)
        self._finish_when_drained()

    def _drain(self) -> None:
        """What is left behind keeps the pipes open: not waited for, but what a follower has no room for yet is."""
        if self._paused:
            self._later(DRAIN_SECONDS, self._drain)
            return
        for descriptor in tuple(self._outputs):
            self._read_rest(descriptor)
        self._finish()

    def _read_rest(self, descriptor: int) -> None:
        """Take what one pipe can hold; a writer that goes on is not waited for."""
        with suppress(OSError):
            for _ in range(LAST_READS):
                data = os.read(descriptor, READ_BYTES)
                if not data:
                    return
                self._say(descriptor, data)

    def _finish_when_drained(self) -> None:
        if self._exit is not None and not self._outputs:
            self._finish()

    def _finish(self) -> None:
        if self.ended or self._exit is None:
            return
        if self._timed_out:
            signal_all(self._doomed, signal.SIGKILL)
        for timer in self._timers:
            timer.cancel()
        self._close_all()
        self.ended = True
        end = {"exit_code": self._exit.exit_code, "signal": self._exit.signal, "timed_out": self._timed_out}
        self._add({"event": "end", **end}, 0)
        self.finished.set()

    def _close_all(self) -> None:
        self._close_input()
        for descriptor in tuple(self._outputs):
            self._close_output(descriptor)

    def _close_input(self) -> None:
        """A terminal's is its output too, and stays open as such."""
        if self._input >= 0:
            self._loop.remove_writer(self._input)
            if not self._terminal:
                os.close(self._input)
            self._input = -1

    def _close_output(self, descriptor: int) -> None:
        self._loop.remove_reader(descriptor)
        if descriptor == self._input:
            self._close_input()
        os.close(descriptor)
        del self._outputs[descriptor]

    def _later(self, seconds: float, call: Any) -> None:
        self._timers.append(self._loop.call_later(seconds, call))


class FollowedPrograms:
    """All of them: those that run, and those whose end was not read, the oldest forgotten first."""

    def __init__(self, options: Options, reaper: Reaper) -> None:
        self._options = options
        self._reaper = reaper
        self._known: dict[int, FollowedProgram] = {}
        self._executions: dict[str, FollowedProgram] = {}

    def start(
        self,
        command: list[str],
        *,
        variables: dict[str, str],
        directory: str,
        tag: str,
        size: tuple[int, int] | None,
        takes_input: bool,
        timeout_seconds: float,
        execution: str = "",
        output_bytes: int = 0,
    ) -> FollowedProgram:
        """Start one in this directory, with these environment variables besides those that all programs have.

        Without a command it is a login shell. It is found by its `execution` for a while after its end, with so many
        bytes of each stream.
        """
        self._forget()
        if not 0 <= output_bytes <= MAX_OUTPUT_BYTES:
            raise Refusal(400, "invalid_request", f"output_bytes must be at most {MAX_OUTPUT_BYTES}")
        if len(self.running()) >= MAX_RUNNING:
            raise Refusal(429, "too_many_commands", f"{MAX_RUNNING} programs are running already")
        command = command or [find_shell(), "-l"]
        described = {"command": command, "variables": variables, "directory": directory, "tag": tag}
        program = Program(command, self._options)
        if "/" not in command[0]:  # where a shell would find it
            path = {**program.environment, **variables}.get("PATH")
            program.command = [_find_program(command[0], path), *command[1:]]
        program.environment.update({"MPLBACKEND": "Agg", **({"TERM": "xterm-256color"} if size else {}), **variables})
        program.directory, program.needs_directory = directory, True
        followed = FollowedProgram(described, execution=execution, output_bytes=output_bytes if execution else 0)
        try:
            followed.start(program, self._reaper, size=size, takes_input=takes_input, timeout=timeout_seconds)
        except OSError as error:
            raise _refusal_to_start(error, command, directory) from error
        self._known[followed.pid] = followed
        if execution:
            self._executions[execution] = followed
        return followed

    def find(self, pid: int) -> FollowedProgram:
        """One by its pid, also for a while after its end."""
        self._forget()
        try:
            return self._known[pid]
        except KeyError:
            raise Refusal(404, "not_found", f"no program with pid {pid} runs here") from None

    def is_execution(self, execution: str) -> bool:
        """Whether `find_execution` finds it."""
        return execution in self._executions

    def find_execution(self, execution: str) -> FollowedProgram:
        """One by the execution that it is, also for a while after its end."""
        self._forget()
        try:
            return self._executions[execution]
        except KeyError:
            raise Refusal(410, "forgotten", "no such program was started, or it ended long ago") from None

    def describe_known(self) -> list[dict[str, Any]]:
        """Those that run, and those of whose end is still told."""
        self._forget()
        return [each.describe() for each in self._known.values()]

    def running(self) -> list[int]:
        """Pids of those that run."""
        return [pid for pid, each in self._known.items() if not each.ended]

    def _forget(self) -> None:
        ended = [pid for pid, each in self._known.items() if each.ended]
        for number, pid in enumerate(ended):
            most = MAX_READ if self._known[pid].is_read else MAX_KEPT
            if number < len(ended) - most:
                del self._known[pid]
        finished = [name for name, each in self._executions.items() if each.ended]
        held = sum(self._executions[name].kept_bytes for name in finished)
        for count, name in zip(range(len(finished), 0, -1), finished):
            if count <= KEPT_ANSWERS and held <= KEPT_ANSWER_BYTES:
                break
            held -= self._executions.pop(name).kept_bytes


def _find_program(name: str, path: str | None) -> str:
    import shutil  # noqa: PLC0415 - it brings all kinds of archives, which the guest's start is spared

    return shutil.which(name, path=path) or name


def _refusal_to_start(error: OSError, command: Iterable[str], directory: str) -> Refusal:
    """Why a program cannot be started, in words about what was asked for."""
    if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.EACCES, errno.ENAMETOOLONG, errno.ENOEXEC):
        what = f"{os.strerror(error.errno)}: {next(iter(command))!r} in the directory {directory!r}"
        return Refusal(400, "cannot_start", what)
    return refusal_of(error)
