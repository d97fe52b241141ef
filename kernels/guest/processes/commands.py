"""Shell commands, waited for or in the background, each with a deadline and bounded output.

One that is begun under an id of its caller's is begun once, and kept for who asks for it again: its caller may have
been killed, and the next process waits for it.

A command ends when its shell has: output is then drained until the pipes close, or shortly after when something that
the command left behind keeps them open.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterable
from typing import Any

from ..options import Options
from ..refusal import Refusal, refusal_of
from .capture import HeadTail
from .families import signal_all, signal_family
from .reaper import Exit, Reaper
from .spawn import Program, spawn

MAX_RUNNING = 16
MAX_COMMAND_BYTES = 128 * 1024 - 1
"""What Linux takes as one argument."""
MAX_OUTPUT_BYTES = 2 * 1024 * 1024
MAX_TIMEOUT_SECONDS = 8 * 3600.0
KEPT_TASKS = 64
KEPT_BYTES = 16 * 1024 * 1024
KEPT_ANSWERS = 32
"""Of commands under ids of their callers: more than can run at once."""
KEPT_ANSWER_BYTES = 8 * 1024 * 1024
MOST_IDS = 1_000
"""Of commands that are not to be begun again."""
GRACE_SECONDS = 2.0
DRAIN_SECONDS = 0.25
UNKILLABLE_SECONDS = 5.0
READ_BYTES = 64 * 1024


def find_shell() -> str:
    """The sandbox's bash, or what it has in its place."""
    return "/bin/bash" if os.path.exists("/bin/bash") else "/bin/sh"


class Command:
    """One shell and its output. `status` is running, done, timeout or stopped.

    With `merge_output` one pipe takes both streams, so that what is in it is in the order it was written.
    """

    def __init__(self, output_bytes: int, *, merge_output: bool = False, command_id: str = "") -> None:
        self.id = command_id or new_id()
        self._merge_output = merge_output
        self.status = "running"
        self.finished = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._begun = self._loop.time()
        self._duration = 0.0
        self.streams = {"stdout": HeadTail(output_bytes), "stderr": HeadTail(output_bytes)}
        self._open: dict[int, HeadTail] = {}
        self._timers: list[asyncio.TimerHandle] = []
        self._exit: Exit | None = None
        self._doomed: set[int] = set()
        self.pid = 0

    def start(self, line: str, options: Options, reaper: Reaper, timeout_seconds: float) -> None:
        """Start the shell. Raises OSError."""
        program = Program([find_shell(), "-c", line], options)
        program.environment["MPLBACKEND"] = "Agg"
        pipes: list[int] = []
        try:
            for name in ("stdout",) if self._merge_output else ("stdout", "stderr"):
                mine, theirs = os.pipe()
                self._open[mine] = self.streams[name]
                pipes.append(theirs)
            program.stdout, program.stderr = pipes[0], pipes[-1]
            self.pid = spawn(program)
        except OSError:
            self._close_pipes()
            raise
        finally:
            for theirs in pipes:
                os.close(theirs)
        reaper.watch(self.pid, self._on_exit)
        for mine in self._open:
            os.set_blocking(mine, False)
            self._loop.add_reader(mine, self._on_readable, mine)
        self._later(timeout_seconds, self.end, "timeout")

    def end(self, status: str) -> None:
        """Have it end as `timeout` or `stopped`: TERM for all of it, KILL after a grace for what is left."""
        if self.status != "running" or self._exit is not None:
            return
        self.status = status
        self._doomed = signal_family(self.pid, signal.SIGTERM)
        self._later(GRACE_SECONDS, self._kill)

    def report(self) -> dict[str, Any]:
        """The answer to a question for it."""
        stdout, stderr = self.streams["stdout"], self.streams["stderr"]
        return {
            "id": self.id,
            "status": self.status if self.finished.is_set() else "running",
            "stdout": stdout.text(),
            "stderr": stderr.text(),
            "exit_code": self._exit.shell_code if self._exit and self.finished.is_set() else None,
            "timed_out": self.status == "timeout",
            "duration_seconds": self._duration if self.finished.is_set() else self._loop.time() - self._begun,
            "stdout_truncated": stdout.cut_bytes,
            "stderr_truncated": stderr.cut_bytes,
        }

    @property
    def kept_bytes(self) -> int:
        return sum(stream.kept_bytes for stream in self.streams.values())

    def _on_readable(self, pipe: int) -> None:
        try:
            data = os.read(pipe, READ_BYTES)
        except BlockingIOError:
            return
        self._open[pipe].feed(data)
        if not data:
            self._close_pipe(pipe)
            self._finish_when_drained()

    def _on_exit(self, end: Exit) -> None:
        self._exit = end
        self._duration = self._loop.time() - self._begun
        self._later(DRAIN_SECONDS if self.status == "running" else GRACE_SECONDS, self._finish)
        self._finish_when_drained()

    def _finish_when_drained(self) -> None:
        if self._exit is not None and not self._open:
            self._finish()

    def _kill(self) -> None:
        """Kill what has not ended by itself; a shell that even survives that (stuck in the kernel) is given up."""
        self._doomed |= signal_family(self.pid, signal.SIGKILL)
        signal_all(self._doomed, signal.SIGKILL)
        self._later(UNKILLABLE_SECONDS, self._finish)

    def _finish(self) -> None:
        if self.finished.is_set():
            return
        if self.status == "running":
            self.status = "done"
        else:
            signal_all(self._doomed, signal.SIGKILL)
        for timer in self._timers:
            timer.cancel()
        for pipe in self._open:
            self._last_read(pipe)
        self._close_pipes()
        self.finished.set()

    def _last_read(self, pipe: int) -> None:
        """Take what one pipe can hold; a writer that goes on is not waited for."""
        try:
            self._open[pipe].feed(os.read(pipe, 16 * READ_BYTES))
        except BlockingIOError:
            return

    def _close_pipes(self) -> None:
        for pipe in tuple(self._open):
            self._close_pipe(pipe)

    def _close_pipe(self, pipe: int) -> None:
        self._loop.remove_reader(pipe)
        os.close(pipe)
        del self._open[pipe]

    def _later(self, seconds: float, call: Any, *arguments: Any) -> None:
        self._timers.append(self._loop.call_later(seconds, call, *arguments))


class Commands:
    """All commands of the sandbox: those that run, and what background ones left, oldest forgotten first."""

    def __init__(self, options: Options, reaper: Reaper) -> None:
        self._options = options
        self._reaper = reaper
        self._running: dict[str, Command] = {}
        self._tasks: dict[str, Command] = {}
        self._answers: dict[str, Command] = {}
        self._begun: dict[str, None] = {}

    def start(
        self,
        line: str,
        *,
        timeout_seconds: float,
        output_bytes: int,
        background: bool,
        merge_output: bool = False,
        command_id: str = "",
    ) -> Command:
        """Start a command; a background one can be looked up by its id from now on.

        One with an id of the caller's is begun once: asked for again it is the one that was begun.
        """
        _check(line, timeout_seconds, output_bytes)
        self._forget()
        if command_id in self._begun:
            return self.find_execution(command_id)
        if len(self._running) >= MAX_RUNNING:
            raise Refusal(429, "too_many_commands", f"{MAX_RUNNING} commands are running already")
        command = Command(output_bytes, merge_output=merge_output, command_id=command_id)
        try:
            command.start(line, self._options, self._reaper, timeout_seconds)
        except OSError as error:
            raise refusal_of(error) from error
        self._running[command.id] = command
        if background:
            self._tasks[command.id] = command
        elif command_id:
            self._answers[command_id] = command
            self.never_begin(command_id)
        return command

    def never_begin(self, command_id: str) -> None:
        """Nothing is begun under this id from now on."""
        self._begun[command_id] = None
        while len(self._begun) > MOST_IDS:
            del self._begun[next(iter(self._begun))]

    def find_execution(self, command_id: str) -> Command:
        """One that was begun under an id of its caller's, or a background command by its own."""
        self._forget()
        try:
            return self._answers.get(command_id) or self._tasks[command_id]
        except KeyError:
            raise Refusal(
                410, "forgotten", "no such command was begun, or it ended long ago and was forgotten"
            ) from None

    def task(self, task_id: str) -> Command:
        """A background command by its id."""
        self._forget()
        try:
            return self._tasks[task_id]
        except KeyError:
            raise Refusal(404, "not_found", "no such task, or it ended long ago and was forgotten") from None

    def running(self) -> Iterable[int]:
        """The pids of the shells that run."""
        self._forget()
        return [command.pid for command in self._running.values()]

    def _forget(self) -> None:
        """Drop what has finished from the running, and the oldest results beyond the bounds."""
        self._running = {key: command for key, command in self._running.items() if not command.finished.is_set()}
        self._drop_oldest(self._tasks, KEPT_TASKS, KEPT_BYTES)
        self._drop_oldest(self._answers, KEPT_ANSWERS, KEPT_ANSWER_BYTES)

    def _drop_oldest(self, kept: dict[str, Command], most: int, most_bytes: int) -> None:
        finished = [key for key in kept if key not in self._running]
        held = sum(kept[key].kept_bytes for key in finished)
        for count, key in zip(range(len(finished), 0, -1), finished):
            if count <= most and held <= most_bytes:
                break
            held -= kept.pop(key).kept_bytes


def new_id() -> str:
    """A random UUID; the module of that name takes longer to import than it is worth."""
    made = bytearray(os.urandom(16))
    made[6], made[8] = made[6] & 0x0F | 0x40, made[8] & 0x3F | 0x80
    text = made.hex()
    return "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))


def _check(line: str, timeout_seconds: float, output_bytes: int) -> None:
    try:
        fits = len(os.fsencode(line)) <= MAX_COMMAND_BYTES and "\0" not in line
    except UnicodeEncodeError:
        fits = False
    if not fits:
        raise Refusal(400, "invalid_request", f"a command is text without NUL of at most {MAX_COMMAND_BYTES} bytes")
    if not 0 < timeout_seconds <= MAX_TIMEOUT_SECONDS:
        raise Refusal(400, "invalid_request", f"timeout_seconds must be above 0 and at most {MAX_TIMEOUT_SECONDS:g}")
    if not 0 <= output_bytes <= MAX_OUTPUT_BYTES:
        raise Refusal(400, "invalid_request", f"output_bytes must be at most {MAX_OUTPUT_BYTES}")
