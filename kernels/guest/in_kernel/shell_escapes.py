"""`!command`: a shell whose output goes to a terminal, and which has nothing to read from.

Loaded by `kernel_main`, once. IPython's own way gives the command a controlling terminal, and what asks there (ssh,
sudo, getpass, a pager) would wait for a person until the execution's deadline. Here the command has none, the terminal
that it writes to is open for writing only, and whatever reads it all the same is at its end at once.
"""

from __future__ import annotations

import codecs
import fcntl
import math
import os
import select
import shutil
import signal
import struct
import subprocess
import sys
import termios
import time
from contextlib import suppress

ROWS, COLUMNS = 24, 80
HEED_SECONDS = 0.2
"""How long a command has to end after an interrupt, before it is killed."""
LOOK_SECONDS = 0.05
"""How often to look whether a command that writes nothing has ended."""
_LOCAL_MODES, _CONTROL_CHARACTERS = 3, 6
_PIECE_BYTES = 1 << 16


def run(command: str) -> int:
    """Run a command and print what it writes as it comes; its exit status, or a signal's number as a negative one.

    An interrupt goes to the command and what it started, as from a keyboard, and ends no more than that.
    """
    master, terminal = os.openpty()
    with open(master, "rb", buffering=0) as source:
        try:
            _have_nothing_to_read(terminal)
            process = _start(command, terminal)
        finally:
            os.close(terminal)
        printed = _Printed(source.fileno(), process)
        try:
            try:
                printed.until()
                process.wait()
            except KeyboardInterrupt:
                _interrupt(process, printed)
        except BaseException:
            _kill(process)
            raise
    status = process.returncode
    return 128 - status if status > 128 else status


class _Printed:
    """What a command writes to its terminal, printed; characters that come in two pieces are one."""

    def __init__(self, descriptor: int, process: subprocess.Popen[bytes]) -> None:
        self._descriptor = descriptor
        self._process = process
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def until(self, deadline: float = math.inf) -> None:
        """Go on until the command has ended and all is printed, or to the deadline."""
        while time.monotonic() < deadline:
            has_ended = self._process.poll() is not None
            if self._is_ready(0 if has_ended else min(LOOK_SECONDS, deadline - time.monotonic())):
                if not self._print():
                    break
            elif has_ended:  # gVisor's terminals have no end, and what the command left behind may hold a Linux one
                break
        self._write(self._decoder.decode(b"", final=True))

    def _is_ready(self, seconds: float) -> bool:
        return bool(select.select([self._descriptor], [], [], max(0.0, seconds))[0])

    def _print(self) -> bool:
        """Print what is there; says whether there may be more."""
        try:
            piece = os.read(self._descriptor, _PIECE_BYTES)
        except OSError:  # EIO: no process holds the other side any more
            return False
        self._write(self._decoder.decode(piece))
        return bool(piece)

    def _write(self, text: str) -> None:
        sys.stdout.write(text)
        sys.stdout.flush()


def _have_nothing_to_read(terminal: int) -> None:
    """A read of the terminal returns at once and empty, for every program and by every name."""
    modes = termios.tcgetattr(terminal)
    modes[_LOCAL_MODES] &= ~(termios.ICANON | termios.ECHO)
    modes[_CONTROL_CHARACTERS][termios.VMIN] = modes[_CONTROL_CHARACTERS][termios.VTIME] = 0
    termios.tcsetattr(terminal, termios.TCSANOW, modes)
    with suppress(OSError):
        fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("4H", ROWS, COLUMNS, 0, 0))


def _start(command: str, terminal: int) -> subprocess.Popen[bytes]:
    shell = shutil.which(os.environ.get("SHELL", "sh")) or "/bin/sh"
    output = os.open(os.ttyname(terminal), os.O_WRONLY | os.O_NOCTTY | os.O_CLOEXEC)
    try:
        # A session of its own has no controlling terminal until it opens one, and this one is open already.
        return subprocess.Popen(
            [shell, "-c", command],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    finally:
        os.close(output)


def _interrupt(process: subprocess.Popen[bytes], printed: _Printed) -> None:
    _signal(process, signal.SIGINT)
    try:
        printed.until(time.monotonic() + HEED_SECONDS)
        process.wait(HEED_SECONDS)
    except (KeyboardInterrupt, subprocess.TimeoutExpired):  # a second interrupt is a sign of impatience
        pass
    finally:
        _kill(process)


def _kill(process: subprocess.Popen[bytes]) -> None:
    """End the command and what it started; what has made a session of its own goes on."""
    _signal(process, signal.SIGKILL)
    process.wait()


def _signal(process: subprocess.Popen[bytes], number: int) -> None:
    """To the command's group, which is there for as long as anybody is in it."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)
