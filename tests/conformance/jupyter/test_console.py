"""`sandcell attach --console` with the real jupyter console, by a person at a terminal; and what `attach` writes."""

from __future__ import annotations

import json
import os
import pty
import select
import signal
import stat
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from tests.conformance.jupyter.conftest import Agents

SECONDS = 120
ENTER = "\r\r\r"
"""What ends a cell: two empty lines, by the console's own rule."""
SANDCELL = str(Path(sys.executable).with_name("sandcell"))


class Terminal:
    """A program at a terminal of its own."""

    def __init__(self, command: list[str], environment: Mapping[str, str]) -> None:
        self._seen = b""
        self._master, theirs = pty.openpty()
        # `setsid --ctty` makes the terminal its own, so that Ctrl-C is a signal; no fork of a process with threads.
        self._process = subprocess.Popen(
            ["setsid", "--ctty", *command], env=environment, stdin=theirs, stdout=theirs, stderr=theirs
        )
        os.close(theirs)

    def type(self, text: str) -> None:
        os.write(self._master, text.encode())

    def until(self, text: str, *, typing: str = "") -> str:
        """Wait until it shows this, typing meanwhile; what it showed up to there."""
        give_up = time.monotonic() + SECONDS
        while text.encode() not in self._seen:
            self.type(typing)
            ended = not self._read()
            assert not ended, f"it ended, and never showed {text!r}: {self._seen!r}"
            assert time.monotonic() < give_up, f"it never showed {text!r}: {self._seen!r}"
        shown, _, self._seen = self._seen.partition(text.encode())
        return (shown + text.encode()).decode(errors="replace")

    def until_prompt(self) -> None:
        """Wait until it takes a cell. It shows its prompt before it takes the terminal over: what is typed between gets
        a newline of the terminal's in the place of Enter, and so becomes the first line of a cell."""
        self.until("In [")
        give_up = time.monotonic() + SECONDS
        while termios.tcgetattr(self._master)[3] & termios.ECHO:
            assert time.monotonic() < give_up, f"it never took the terminal over: {self._seen!r}"
            time.sleep(0.01)

    def _read(self) -> bool:
        ready, _, _ = select.select([self._master], [], [], 1)
        if ready:
            try:
                self._seen += os.read(self._master, 65_536)
            except OSError:
                return False
        return True

    def status(self) -> int:
        """How it ended; what it still shows is read meanwhile."""
        give_up = time.monotonic() + SECONDS
        while (status := self._process.poll()) is None:
            assert time.monotonic() < give_up, f"it did not end: {self._seen!r}"
            self._read()
        return status

    def close(self) -> None:
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        os.close(self._master)


@pytest.fixture
def environment(agents: Agents, client_environment: Callable[[str], Path], tmp_path: Path) -> dict[str, str]:
    """That of a person who has jupyter console."""
    console = client_environment("jupyter_console") / "bin"
    # It is not to ask the kernel whether what was typed is complete: when the end of that question reaches it late, it
    # takes that for the end of the code that it has sent since, and then shows no `input()` of it, and waits for ever.
    patience = {"use_kernel_is_complete": False, "kernel_timeout": SECONDS}
    (tmp_path / ".jupyter").mkdir()
    (tmp_path / ".jupyter/jupyter_console_config.json").write_text(
        json.dumps({"ZMQTerminalInteractiveShell": patience})
    )
    places = {"HOME": str(tmp_path), "TMPDIR": str(tmp_path), "XDG_STATE_HOME": str(tmp_path / "state")}
    account = {"SANDCELL_URL": agents.service.url, "SANDCELL_TOKEN": agents.service.token}
    return {**os.environ, "PATH": f"{console}:{os.environ['PATH']}", "TERM": "dumb", **places, **account}


@pytest.fixture
def console(agents: Agents, environment: dict[str, str]) -> Iterator[Terminal]:
    terminal = Terminal([SANDCELL, "attach", agents.id, "--console", "--name", "ben"], environment)
    yield terminal
    terminal.close()


def test_a_person_works_in_the_console(agents: Agents, console: Terminal, tmp_path: Path) -> None:
    console.until_prompt()
    (file,) = tmp_path.glob("sandcell-*/kernel-*.json")
    assert [stat.S_IMODE(each.stat().st_mode) for each in (file.parent, file)] == [0o700, 0o600]
    assert json.loads(file.read_text())["transport"] == "ipc"

    console.type("bens = agent + 1; print('it' + 's', bens)" + ENTER)
    console.until("its 42")
    console.until_prompt()
    console.type("import time; time.sleep(300)" + ENTER)
    agents.wait_until_running("time.sleep(300)")
    console.type("\x03")
    console.until("KeyboardInterrupt")
    console.until_prompt()
    console.type("bens_name = input('na' + 'me? ')" + ENTER)
    console.until("name? ")
    console.type("Ben\r")
    console.until_prompt()
    console.until("exit ([y]/n)?", typing="\x04")  # a terminal that is no prompt yet takes it for its own
    console.type("y\r")
    assert console.status() == 0

    assert agents.printed("print(agent, bens, bens_name)") == "41 42 Ben\n"
    assert list(tmp_path.glob("sandcell-*")) == []
    with agents.service.client() as client:
        (token,) = [each for each in client.list_attach_tokens(agents.id).items if each.name == "ben"]
    assert token.revoked_at is not None


def test_without_a_console_here_it_says_how_and_waits(agents: Agents, environment: dict[str, str]) -> None:
    command = [SANDCELL, "attach", agents.id, "--console"]
    with subprocess.Popen(
        command, env={**environment, "PATH": "/usr/bin:/bin"}, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            assert line.startswith("jupyter console --existing /"), line
            assert Path(line.split()[-1]).exists()
            process.send_signal(signal.SIGINT)
            assert process.wait(SECONDS) == 0
            assert not Path(line.split()[-1]).exists()
        finally:
            process.kill()


def test_attach_says_what_to_type(agents: Agents, environment: dict[str, str], tmp_path: Path) -> None:
    done = subprocess.run(
        [SANDCELL, "attach", agents.id], env=environment, capture_output=True, text=True, timeout=SECONDS, check=True
    )
    configuration = tmp_path / "state/sandcell/attach" / agents.id
    assert f"JUPYTER_CONFIG_PATH={configuration} jupyter lab" in done.stdout
    assert f"{agents.service.url}/?token=sandcell_attach_" in done.stdout
    assert stat.S_IMODE(configuration.stat().st_mode) == 0o700
    (file,) = configuration.iterdir()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
