"""`sandcell shell` on a terminal: keys, sizes, signals and the exit status reach where they belong; and without one."""

from __future__ import annotations

import fcntl
import os
import signal
import struct
import termios
from collections.abc import Iterator

import pytest

from tests.integration.client.sandcell.cli.conftest import Shell
from tests.integration.client.sandcell.cli.sessions.test_repl import PATIENCE_SECONDS, Terminal
from tests.running_service import RunningService


@pytest.fixture(scope="module")
def sandcell(service: RunningService, tmp_path_factory: pytest.TempPathFactory) -> Shell:
    return Shell(service, tmp_path_factory.mktemp("home"))


@pytest.fixture(scope="module")
def session(sandcell: Shell) -> Iterator[str]:
    yield sandcell("session", "new", "--name", "shells").stdout.strip()
    sandcell("session", "stop")


def resize(terminal: Terminal, columns: int, rows: int) -> None:
    fcntl.ioctl(terminal.descriptor, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    os.kill(terminal.process.pid, signal.SIGWINCH)


def test_a_shell_as_at_a_terminal(sandcell: Shell, session: str) -> None:
    terminal = Terminal(sandcell, "shell", session)
    try:
        terminal.expect("/workspace")
        terminal.type("PS1='$ '; stty size; echo en''d\n")
        assert "24 80" in terminal.expect("end\r\n")
        resize(terminal, 91, 33)
        terminal.type("until [ \"$(stty size)\" = '33 91' ]; do sleep 0.1; done; echo siz''ed\n")
        terminal.expect("sized\r\n")
        # Printed by what is to be interrupted: a shell that has not begun it yet may miss that.
        terminal.type("sh -c 'echo be\"\"gun; exec sleep 1000'; echo status $?\n")
        terminal.expect("begun\r\n")
        terminal.type("\x03")
        terminal.expect("^C")
        terminal.expect("$ ")  # what is typed before its prompt a shell may throw away with what it was interrupted in
        terminal.type("printf '\\033]52;c;aGk=\\007gr\\303\\274n\\n'\n")
        shown = terminal.expect("grün\r\n")
        assert "\x1b]52" not in shown, "no sandbox writes to a clipboard"
        terminal.type("exit 7\n")
        assert terminal.process.wait(PATIENCE_SECONDS) == 7
    finally:
        terminal.close()


def test_leaving_a_shell_ends_it(sandcell: Shell, session: str) -> None:
    terminal = Terminal(sandcell, "shell", "-i", "echo here; cat", "--session", session)
    try:
        terminal.expect("here\r\n")
        terminal.type("typed\n")
        terminal.expect("typed\r\ntyped\r\n")
        terminal.type("~.")
        assert terminal.process.wait(PATIENCE_SECONDS) == 128 + signal.SIGHUP
    finally:
        terminal.close()
    killed = sandcell("shell", "-i", "kill -9 $$", "--session", session)
    assert killed.returncode == 128 + signal.SIGKILL


def test_a_shell_is_left_running_and_returned_to(sandcell: Shell, session: str) -> None:
    terminal = Terminal(sandcell, "shell", session)
    try:
        terminal.expect("/workspace")
        terminal.type("PS1='$ '; word=kept; echo rea''dy\n")
        terminal.expect("ready\r\n")
        terminal.type("\n~d")
        terminal.expect(f"it goes on: `sandcell shell {session} --attach ")
        program = terminal.expect("`")
        assert terminal.process.wait(PATIENCE_SECONDS) == 0
    finally:
        terminal.close()
    listed = [each.split("\t") for each in sandcell("shell", "--list", session).stdout.splitlines()]
    (command,) = [command for name, command, _followers in listed if name.startswith(program)]
    assert command.endswith("bash -l")
    terminal = Terminal(sandcell, "shell", session, "--attach", program)
    try:
        terminal.expect("ready\r\n")  # the end of what it put out
        resize(terminal, 72, 20)
        terminal.type("until [ \"$(stty size)\" = '20 72' ]; do sleep 0.1; done; echo $word''here\n")
        terminal.expect("kepthere\r\n")
        terminal.type("exit 7\n")
        assert terminal.process.wait(PATIENCE_SECONDS) == 7
        terminal.close()
        terminal = Terminal(sandcell, "shell", session, "--attach", program)
        terminal.expect("no programs with a terminal begin with")
        assert terminal.process.wait(PATIENCE_SECONDS) == 2
    finally:
        terminal.close()
    assert "needs a terminal" in sandcell("shell", session, "--attach", program).stderr
    for arguments in (("--list", "ls"), ("--attach", program, "--list"), ("-i", "--attach", program)):
        assert sandcell("shell", *arguments).returncode == 2


def test_without_a_terminal_it_reads_commands(sandcell: Shell, session: str) -> None:
    done = sandcell("shell", session, stdin="echo out; echo err >&2; [ -t 0 ] || echo no terminal; exit 5\n")
    assert (done.returncode, done.stdout, done.stderr) == (5, "out\nno terminal\n", "err\n")
    large = "x" * 300_000
    copied = sandcell("shell", "-i", "cat", "--session", session, stdin=large)
    assert (copied.returncode, copied.stdout) == (0, large)
    late = sandcell("shell", "-i", "sleep 1000", "--timeout", "0.3", "--session", session)
    assert late.returncode == 4
    assert "time was up" in late.stderr
    assert sandcell("shell", session, "--session", "another").returncode == 2
    assert sandcell("shell", "--json", session).returncode == 2
