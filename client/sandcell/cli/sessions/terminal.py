"""A program of a session at this terminal: keys go to it as they are typed, and its screen is this one."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
import termios
import threading
import time
import tty
from base64 import b64decode
from collections.abc import Iterator, Sequence
from typing import Any

from sandcell import Client, Conflict, ConnectionFailed, LimitReached, NotFound, SandcellError, exits
from sandcell.cli.screen import say, write
from sandcell.cli.terminal_text import ScreenFilter
from sandcell.models.commands import MOST_SIDE, Signal
from sandcell.models.executions import Event

READ_BYTES = 64 * 1024
RETRY_SECONDS = 0.2
LOST_SECONDS = 60.0
"""How long a lost service is looked for."""
LEAVE_SECONDS = 5.0
SIGNALLED = 128
QUIT, RESIZE, INTERRUPT, HANG_UP, TERMINATE = range(5)
"""What the thread that sends is poked with."""
SIGNALS: dict[int, Signal] = {INTERRUPT: "SIGINT", HANG_UP: "SIGHUP", TERMINATE: "SIGTERM"}
ESCAPE, END, DETACH, NEWLINES = b"~", b".", b"d", b"\r\n"


class Keys:
    """What is typed, without the ways out of it: at the start of a line `~.`, as in ssh, and `~d`. Pure."""

    def __init__(self) -> None:
        self._at_start, self._held = True, False
        self.left: bytes | None = None
        """END or DETACH, once that was typed."""

    def feed(self, data: bytes) -> bytes:
        """What goes to the program; after `left` nothing."""
        sent = bytearray()
        for number in b"" if self.left else data:
            key = bytes((number,))
            if self._held:
                self._held = False
                if key in (END, DETACH):
                    self.left = key
                    break
                sent += ESCAPE if key != ESCAPE else b""  # `~~` is one of them
            elif self._at_start and key == ESCAPE:
                self._held, self._at_start = True, False
                continue
            sent += key
            self._at_start = key in NEWLINES
        return bytes(sent)


class _Detached(BaseException):
    """Somebody left a program that goes on; nobody on the way takes it for an error."""


class Terminal:
    """This process's standard streams, joined to one program of a session until it ends."""

    def __init__(self, client: Client, session_id: str, *, on_terminal: bool) -> None:
        self._client = client
        self._session = session_id
        self._on_terminal = on_terminal
        self._screen = ScreenFilter()
        self._program = ""
        self._keys = Keys()
        self._wakes, self._wake = os.pipe()
        os.set_blocking(self._wake, False)
        self._lost = threading.Event()

    def start(self, command: Sequence[str], timeout_seconds: float | None) -> None:
        """Start a program to be joined to."""
        size = _find_size() if self._on_terminal else None
        self._program = self._client.start_program(
            self._session, command, terminal=size, timeout_seconds=timeout_seconds
        ).id

    def return_to(self, program_id: str) -> None:
        """Choose one that runs in a terminal, which is now as large as this one."""
        self._program = program_id
        self._client.resize_terminal(self._session, program_id, *_find_size())

    def run(self) -> int:
        """Stay until it has ended, or somebody leaves it; the exit status that says how."""
        typing = threading.Thread(target=self._send, daemon=True)
        with contextlib.suppress(_Detached), self._attended():
            typing.start()
            try:
                return self._follow()
            finally:
                self._poke(QUIT)
                typing.join(LEAVE_SECONDS)
        say(f"it goes on: `sandcell shell {self._session} --attach {self._program[:8]}` returns to it")
        return 0

    def _follow(self) -> int:
        events = self._client.program_events(self._session, self._program, patience_seconds=LOST_SECONDS)
        try:
            return next(status for event in events if (status := self._show(event)) is not None)
        except SandcellError:
            if self._lost.is_set():
                return exits.INTERRUPTED
            raise

    def _show(self, event: Event) -> int | None:
        """Show one event; the exit status, when it is the last."""
        data = event.data
        if event.event == "output":
            self._write(data["stream"], b64decode(data["data"]))
        elif event.event == "gap":
            self._tell(f"[{data['missed_bytes']:,} bytes of output are missing]")
        elif event.event == "ended":
            return self._end(data)
        return None

    def _end(self, data: dict[str, Any]) -> int:
        if data.get("why"):
            self._tell(data["why"])
            return exits.DIED
        if data.get("timed_out"):
            self._tell("the program's time was up")
            return exits.TIMED_OUT
        if data.get("signal"):
            number = getattr(signal, str(data["signal"]), signal.SIGKILL)
            return SIGNALLED + int(number)
        return int(data.get("exit_code") or 0)

    def _write(self, stream: str, data: bytes) -> None:
        if self._on_terminal:
            sys.stdout.buffer.write(self._screen.feed(data))
            sys.stdout.buffer.flush()
            return
        target = sys.stderr if stream == "stderr" else sys.stdout
        if target.isatty():
            write(data.decode("utf-8", "replace"), stream=target)
        else:
            target.buffer.write(data)
            target.buffer.flush()

    def _tell(self, message: str) -> None:
        if self._on_terminal:
            sys.stderr.write("\r\n")
        say(message)
        if self._on_terminal:
            sys.stderr.write("\r")

    def _send(self) -> None:
        """In a thread of its own: what is typed, and each new size."""
        source = sys.stdin.fileno()
        watched = [source, self._wakes]
        while True:
            ready, _, _ = select.select(watched, [], [])
            if self._wakes in ready and not all(map(self._heed, os.read(self._wakes, 64))):
                return
            if source in ready:
                data = os.read(source, READ_BYTES)
                typed = self._keys.feed(data) if self._on_terminal else data
                if not self._try(lambda: self._type(typed, end=not data)):  # noqa: B023 - it is called at once
                    return
                if self._keys.left == END:
                    self._heed(HANG_UP)
                elif self._keys.left == DETACH:
                    os.kill(os.getpid(), signal.SIGUSR1)  # the main thread waits for output
                if self._keys.left:
                    return
                if not data:
                    watched.remove(source)

    def _type(self, data: bytes, *, end: bool) -> None:
        """Wait for a program that does not read: its terminal takes no more meanwhile, as any would."""
        while data or end:
            try:
                self._client.send_input(self._session, self._program, data, end=end)
            except LimitReached as error:
                time.sleep(min(error.retry_after_seconds, RETRY_SECONDS))
            else:
                return

    def _try(self, call: Any) -> bool:
        """Whether to go on after it."""
        try:
            call()
        except (Conflict, NotFound):
            return False  # it has ended: who follows it hears how
        except ConnectionFailed:
            self._tell("[the connection was lost: what was typed may not have arrived]")
        except SandcellError as error:
            self._tell(f"[{error}]")
        return True

    def _heed(self, poke: int) -> bool:
        """What the main thread was told meanwhile; whether to go on. There, it might hold a lock of the client's."""
        if poke == QUIT:
            return False
        if poke == RESIZE:
            return self._try(lambda: self._client.resize_terminal(self._session, self._program, *_find_size()))
        if poke != INTERRUPT:  # a service that does not answer keeps nobody here
            self._lost.set()
            leaving = threading.Timer(LEAVE_SECONDS, os.kill, (os.getpid(), signal.SIGTERM))
            leaving.daemon = True
            leaving.start()
        return self._try(lambda: self._client.signal_program(self._session, self._program, SIGNALS[poke]))

    def _poke(self, what: int) -> None:
        with contextlib.suppress(OSError):  # a full pipe wakes as well
            os.write(self._wake, bytes((what,)))

    @contextlib.contextmanager
    def _attended(self) -> Iterator[None]:
        """Keys come one by one and mean nothing here; the size is passed on; a lost terminal ends the program."""

        def hang_up(number: int, _frame: object) -> None:
            if not self._lost.is_set():
                self._poke(HANG_UP if number == signal.SIGHUP else TERMINATE)
            raise SystemExit(SIGNALLED + number)

        def detach(_number: int, _frame: object) -> None:
            raise _Detached

        handlers: dict[int, Any] = {
            signal.SIGUSR1: detach,
            signal.SIGHUP: hang_up,
            signal.SIGTERM: hang_up,
            signal.SIGINT: lambda _number, _frame: self._poke(INTERRUPT),
        }
        if self._on_terminal:
            handlers[signal.SIGWINCH] = lambda _number, _frame: self._poke(RESIZE)
        before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
        mode = termios.tcgetattr(sys.stdin) if self._on_terminal else None
        try:
            if mode is not None:
                tty.setraw(sys.stdin, termios.TCSADRAIN)  # what was typed already counts
            yield
        finally:
            if mode is not None:
                sys.stdout.buffer.write(self._screen.close())
                sys.stdout.buffer.flush()
                # With what came meanwhile: an answer of the terminal's to the program is no line for the shell here.
                termios.tcsetattr(sys.stdin, termios.TCSAFLUSH, mode)
            for number, handler in before.items():
                signal.signal(number, handler)


def is_terminal() -> bool:
    """Whether a person is at both ends."""
    return sys.stdin.isatty() and sys.stdout.isatty()


def _find_size() -> tuple[int, int]:
    # Not by COLUMNS and LINES, which stay as they were. A terminal that does not know its size says 0.
    columns, rows = os.get_terminal_size(sys.stdout.fileno())
    return min(columns or 80, MOST_SIDE), min(rows or 24, MOST_SIDE)
