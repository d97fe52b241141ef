"""The kernel process of the sandbox: its connection file, its start, its signals and its end.

One kernel of a kind lives at a time; each start is a new generation with new socket names and a new key. What follows a
kernel (the events stream) subscribes to it.
"""

from __future__ import annotations

import os
import sys

from ..options import Options
from .reaper import Exit, Reaper
from .spawn import Program, spawn

TYPE_CHECKING = False  # nothing that runs before the first kernel starts imports `typing`
if TYPE_CHECKING:
    import signal
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    Event = dict[str, Any]
else:
    import _signal as signal

    Event = dict

CHANNELS = ("shell_port", "iopub_port", "stdin_port", "control_port", "hb_port")
LAUNCHER = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "in_kernel", "kernel_main.py")
NO_PATHS = ("-P", "-s") if sys.version_info >= (3, 11) else ("-s",)
"""Keep the launcher's directory, full of our modules, off the path of user code, and the user's packages out of the
start: the launcher adds those itself. Before Python 3.11 the launcher takes its directory away itself."""
LAST_WORDS_BYTES = 4096
RELAY_VERSION = 1
"""As of `relay.frames`, which is imported when a gateway comes."""
GUARD_SIGNAL = signal.SIGURG
GUARD_FILE = "guard.json"
"""What the launcher takes for the word that memory runs out, and where it reads how much there is."""


class Kernel:
    """Starts kernels, signals them and says when they end. `pid` is None when none runs.

    `output` is what the process writes to its raw stderr before or besides its own channels: its last words tell why it
    could not start. The loop sets `follow_output` and `leave_output`, and calls `drain`. Its events begin with `name`.
    """

    name = "kernel"
    handles_interrupts = True
    """Sooner or later: until then it is deaf to them, and so is what it starts."""
    heeds_signals = True
    """Whether SIGINT interrupts it; else a message does, and the signal may end it."""

    def __init__(self, options: Options, reaper: Reaper) -> None:
        self.subscribers: set[Callable[[Event], None]] = set()
        self.generation = 0
        self.key = ""
        self.pid: int | None = None
        self._sockets = ""
        """How their names begin: the generation that it started as is in them."""
        self._options = options
        self._reaper = reaper
        self.labels: dict[str, str] = {}
        """What its events say besides."""
        self.output = -1
        self.follow_output: Callable[[int], object] = lambda descriptor: None
        self.leave_output: Callable[[int], object] = lambda descriptor: None
        self._ended: Event | None = None
        self._last_words = b""

    def start(self, generation: int, key: str = "") -> None:
        """Start a kernel of this generation; the caller has seen to it that nothing of an older one is left.

        It signs with `key`, or with one of its own. Raises OSError when it cannot.
        """
        key = key or os.urandom(32).hex()
        command = self._prepare(generation, key)
        self._close_output()
        self._last_words = b""
        self.output, theirs = os.pipe()
        os.set_blocking(self.output, False)
        program = Program(command, self._options)
        program.environment = self._make_environment()
        program.deaf_to_interrupts = self.handles_interrupts
        program.stderr = theirs
        try:
            pid = spawn(program)
        finally:
            os.close(theirs)
        self.generation, self.key, self.pid, self._ended = generation, key, pid, None
        self.follow_output(self.output)
        self._sockets = f"g{generation}"
        self._reaper.watch(pid, lambda end: self._on_exit(pid, end))
        self._tell(self.describe_start())

    def renumber(self, generation: int) -> None:
        """The kernel that runs is of this generation from now on; its sockets keep their names."""
        self.generation = generation

    def describe_start(self) -> Event:
        """The event that names the current kernel."""
        started = {"event": f"{self.name}_started", "generation": self.generation, "key": self.key}
        return {**self.labels, **started, "relay": RELAY_VERSION}

    def sockets(self) -> tuple[str, str]:
        """The directory of its sockets, and how their names begin."""
        return self._options.kernel_directory, self._sockets

    def story(self) -> list[Event]:
        """What a new follower must know: the current kernel, and its end if it has ended."""
        return [self.describe_start()] + ([self._ended] if self._ended else [])

    def subscribe(self, deliver: Callable[[Event], None]) -> Callable[[], None]:
        """Have events delivered from now on; call what is returned to stop."""
        self.subscribers.add(deliver)
        return lambda: self.subscribers.discard(deliver)

    def interrupt(self) -> bool:
        """SIGINT to the kernel and the processes it started, as Jupyter does; False when no kernel runs."""
        return self._signal(signal.SIGINT)

    def guard_memory(self, held_bytes: int, limit_bytes: int) -> bool:
        """Have what runs end with `MemoryGuard`, and interrupt the processes it started; False when no kernel runs.

        A kernel that is not started by our launcher, or whose directory has no room, is interrupted.
        """
        from .families import signal_all  # noqa: PLC0415 - asyncio comes with it; the first kernel starts before that

        if self.pid is None:
            return False
        try:
            if not os.path.exists(LAUNCHER):
                return self.interrupt()
            content = {"held_bytes": held_bytes, "limit_bytes": limit_bytes}
            _write_for_user(self._options, GUARD_FILE, _encode(content))
        except OSError:
            return self.interrupt()
        os.kill(self.pid, GUARD_SIGNAL)
        signal_all(self._list_group(), signal.SIGINT)
        return True

    def _list_group(self) -> list[int]:
        """The others of the kernel's process group, which an interrupt would reach."""
        from .families import family, snapshot  # noqa: PLC0415 - as above

        found = []
        for pid in family([self.pid or 0], snapshot()) - {self.pid}:
            try:
                if os.getpgid(pid) == self.pid:
                    found.append(pid)
            except ProcessLookupError:
                pass
        return found

    def kill(self) -> bool:
        """SIGKILL to the kernel's process group; False when no kernel runs."""
        return self._signal(signal.SIGKILL)

    def drain(self) -> None:
        """Read what the process wrote outside its own channels; the loop calls it when there is something."""
        try:
            data = os.read(self.output, 65536)
        except BlockingIOError:
            return
        if not data:
            self._close_output()
        self._last_words = (self._last_words + data)[-LAST_WORDS_BYTES:]

    def fail(self, generation: int, reason: str) -> None:
        """Record a kernel that could not even be started as one that has ended."""
        self.generation, self.key, self.pid = generation, "", None
        self._last_words = reason.encode()
        self._end(None, None)

    def _prepare(self, generation: int, key: str) -> list[str]:
        """Write what the kernel reads at its start; returns its command line. Raises OSError."""
        sockets = f"{self._options.kernel_directory}/g{generation}"
        file = write_connection_file(self._options, f"g{generation}", key, transport="ipc", ip=sockets)
        launcher = [*NO_PATHS, LAUNCHER] if os.path.exists(LAUNCHER) else ["-m", "ipykernel_launcher"]
        return [self._options.python, *launcher, "-f", file]

    def _make_environment(self) -> dict[str, str]:
        return self._options.make_environment()

    def _signal(self, number: int) -> bool:
        if self.pid is None:
            return False
        os.killpg(self.pid, number)
        return True

    def _on_exit(self, pid: int, end: Exit) -> None:
        if pid != self.pid:
            return
        self.pid = None
        if self.output >= 0:
            self.drain()
        self._close_output()
        self._end(end.exit_code, end.signal)

    def _end(self, exit_code: int | None, signal_name: str | None) -> None:
        self._ended = {
            **self.labels,
            "event": f"{self.name}_exited",
            "generation": self.generation,
            "exit_code": exit_code,
            "signal": signal_name,
            "last_words": self._last_words.decode(errors="replace"),
        }
        self._tell(self._ended)

    def _tell(self, event: Event) -> None:
        for deliver in tuple(self.subscribers):
            deliver(event)

    def _close_output(self) -> None:
        if self.output >= 0:
            self.leave_output(self.output)
            os.close(self.output)
            self.output = -1


def write_connection_file(
    options: Options,
    name: str,
    key: str,
    *,
    transport: str,
    ip: str,
    ports: Sequence[int] = (1, 2, 3, 4, 5),
    kernel: str = "python3",
) -> str:
    """Write a kernel's connection file, readable by the user alone; returns its path. Raises OSError."""
    content: dict[str, str | int] = {
        "transport": transport,
        "ip": ip,
        **dict(zip(CHANNELS, ports)),
        "key": key,
        "signature_scheme": "hmac-sha256",
        "kernel_name": kernel,
    }
    return _write_for_user(options, f"{name}.json", _encode(content))


def _encode(content: Mapping[str, str | int]) -> bytes:
    """JSON, by hand where nothing has to be escaped: the module takes longer to import than all else here."""
    texts = [each for each in content.values() if isinstance(each, str)]
    if not all(each.isascii() and each.isprintable() and not {'"', "\\"} & set(each) for each in texts):
        import json  # noqa: PLC0415 - as above

        return json.dumps(content).encode()
    pairs = (f'"{name}": "{each}"' if isinstance(each, str) else f'"{name}": {each}' for name, each in content.items())
    return f"{{{', '.join(pairs)}}}".encode()


def _write_for_user(options: Options, name: str, content: bytes) -> str:
    """Write a file that the user alone reads, in the place of any of that name; returns its path. Raises OSError."""
    os.chmod(options.kernel_directory, 0o700)  # user code may have closed it
    path = f"{options.kernel_directory}/{name}"
    try:  # noqa: SIM105 - `contextlib` brings `collections`, and more
        os.unlink(path)  # of a start that failed
    except FileNotFoundError:
        pass
    descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_NOFOLLOW, 0o600)
    try:
        os.fchown(descriptor, options.user, options.user)
        os.write(descriptor, content)
    finally:
        os.close(descriptor)
    return path
