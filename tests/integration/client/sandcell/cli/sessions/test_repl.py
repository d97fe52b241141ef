"""`sandcell repl` on a terminal: what is typed runs, blocks go on, Ctrl-C interrupts, TAB completes, Ctrl-D leaves."""

from __future__ import annotations

import os
import pty
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from tests.integration.client.sandcell.cli.conftest import Shell

PATIENCE_SECONDS = 120
PLOT = "import matplotlib.pyplot as plt; plt.plot([1, 2]); plt.show()"


class Terminal:
    """A command on a pseudo-terminal of its own."""

    def __init__(self, shell: Shell, *arguments: str) -> None:
        self.descriptor, theirs = pty.openpty()
        self.process = subprocess.Popen(
            ["env", "--default-signal=INT", sys.executable, "-m", "sandcell", *arguments],
            cwd=shell.directory,
            env={**shell.environment, "TERM": "dumb"},
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
        )
        os.close(theirs)
        self._seen = ""

    def type(self, text: str) -> None:
        os.write(self.descriptor, text.encode())

    def expect(self, text: str) -> str:
        """Read until this is shown; what was shown until then."""
        until = time.monotonic() + PATIENCE_SECONDS
        while text not in self._seen:
            assert time.monotonic() < until, f"{text!r} is not in {self._seen!r}"
            if select.select([self.descriptor], [], [], 1)[0]:
                try:
                    self._seen += os.read(self.descriptor, 65536).decode("utf-8", "replace")
                except OSError:  # no process has the other end open any more
                    assert text in self._seen, self._seen
        before, _, self._seen = self._seen.partition(text)
        return before

    def complete(self, text: str) -> None:
        """Press TAB until this is shown: a kernel that is slow to answer is asked again."""
        until = time.monotonic() + PATIENCE_SECONDS
        while text not in self._seen:
            assert time.monotonic() < until, f"{text!r} is not in {self._seen!r}"
            self.type("\t")
            if select.select([self.descriptor], [], [], 5)[0]:
                self._seen += os.read(self.descriptor, 65536).decode("utf-8", "replace")

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(PATIENCE_SECONDS)
        os.close(self.descriptor)


@pytest.fixture
def terminal(sandcell: Shell) -> Iterator[Terminal]:
    terminal = Terminal(sandcell, "repl")
    yield terminal
    terminal.close()
    sandcell("session", "stop")


def test_a_conversation(terminal: Terminal, sandcell: Shell) -> None:
    terminal.expect(">>> ")
    terminal.type("temperature = 21\n")
    terminal.expect(">>> ")
    terminal.type("for n in range(2):\n    print('row', n)\n\n")
    terminal.expect("row 0")
    terminal.expect("row 1")
    terminal.expect(">>> ")
    terminal.type("tempe\t * 2\n")
    terminal.expect("42")
    terminal.expect(">>> ")
    terminal.type("temperature.bit_len")
    terminal.complete("bit_length")  # an attribute: only the kernel knows it
    terminal.type("() + 37\n")
    terminal.expect("42")
    terminal.expect(">>> ")
    terminal.type("%pwd\n")
    terminal.expect("/workspace")
    terminal.expect(">>> ")
    terminal.type(PLOT + "\n")
    terminal.expect("saved plot-1.png")
    assert (sandcell.directory / "plot-1.png").read_bytes().startswith(b"\x89PNG")
    terminal.expect(">>> ")
    terminal.type("1 / 0\n")
    terminal.expect("ZeroDivisionError: division by zero")
    terminal.expect(">>> ")
    # The word is not in what is typed, of which a dumb terminal shows parts again.
    terminal.type("import time; print('sleep' + 'ing', flush=True); time.sleep(600)\n")
    terminal.expect("sleeping")
    terminal.process.send_signal(signal.SIGINT)
    terminal.expect("KeyboardInterrupt")
    terminal.expect(">>> ")
    terminal.type("temperature\n")
    terminal.expect("21")
    terminal.expect(">>> ")
    terminal.type("\x04")
    terminal.expect("the session stays")
    assert terminal.process.wait(PATIENCE_SECONDS) == 0
    assert "time.sleep(600)" in (sandcell.directory.parent / "state/sandcell/repl_history").read_text()
