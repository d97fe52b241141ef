"""Verbs that work in a live session: shell, files, interrupt, restart; and what every verb has: access, completion."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.client.sandcell.cli.conftest import Shell
from tests.running_service import RunningService


@pytest.fixture(scope="module")
def sandcell(service: RunningService, tmp_path_factory: pytest.TempPathFactory) -> Shell:
    return Shell(service, tmp_path_factory.mktemp("home"))


@pytest.fixture(scope="module")
def session(sandcell: Shell) -> Iterator[str]:
    """The current session of the module."""
    yield sandcell("session", "new", "--name", "verbs").stdout.strip()
    sandcell("session", "stop")


def test_a_shell_command_ends_with_its_own_status(sandcell: Shell, session: str) -> None:
    done = sandcell("shell", "echo out; echo err >&2; exit 3", "--session", session)
    assert (done.stdout, done.stderr, done.returncode) == ("out\n", "err\n", 3)
    assert sandcell("shell", "true").returncode == 0
    late = sandcell("shell", "sleep 60", "--timeout", "0.2")
    assert (late.returncode, late.stderr) == (4, "the command's time was up\n")


def test_files_of_a_live_session(sandcell: Shell, session: str) -> None:
    (sandcell.directory / "local.txt").write_text("hello")
    assert "wrote in/there.txt (5 bytes)" in sandcell("files", "put", "local.txt", "in/there.txt").stderr
    assert "in/\t" in sandcell("files", "ls").stdout
    assert sandcell("files", "ls", "in", "--session", session).stdout.startswith("in/there.txt\t5\t")
    assert sandcell("files", "get", "in/there.txt").stderr == "wrote there.txt\n"
    assert (sandcell.directory / "there.txt").read_text() == "hello"
    assert sandcell("files", "get", "in/there.txt", "-o", "-").stdout == "hello"
    assert "wrote in/said.txt (6 bytes)" in sandcell("files", "put", "-", "in/said.txt", stdin="so be!").stderr
    assert sandcell("files", "get", "in/said.txt", "-o", "-").stdout == "so be!"
    nameless = sandcell("files", "put", "-", stdin="so be!")
    assert (nameless.returncode, "say as which PATH" in nameless.stderr) == (2, True)
    assert sandcell("files", "rm", "in", "--recursive").returncode == 0
    assert "in/" not in sandcell("files", "ls").stdout
    assert sandcell("files", "get", "in/there.txt").returncode == 7


def test_restart_leaves_files_and_takes_variables(sandcell: Shell, session: str) -> None:
    sandcell("run", "kept = 1; open('f', 'w').write('x')")
    assert "kernel generation 2" in sandcell("session", "restart").stderr
    assert sandcell("run", "kept").returncode == 1
    assert re.search(r"^f\t", sandcell("files", "ls").stdout, re.MULTILINE)


def test_interrupt_ends_what_runs(sandcell: Shell, session: str, service: RunningService) -> None:
    with service.client() as client:
        execution = client.submit(session, "import time\nprint('on', flush=True)\ntime.sleep(600)")
        for event in client.events(session, execution.id):
            if event.event == "stream":
                assert sandcell("session", "interrupt", session).returncode == 0
        assert client.wait(session, execution.id).status == "interrupted"


@pytest.mark.parametrize("place", [0, 1, 2], ids=["first", "in between", "last"])
def test_the_service_is_named_anywhere(sandcell: Shell, session: str, place: int, service: RunningService) -> None:
    words = ["session", "ls"]
    words[place:place] = ["--url", service.url, "--token", service.token]
    nowhere = {"SANDCELL_URL": "http://127.0.0.1:9", "SANDCELL_TOKEN": "none"}
    assert session in sandcell(*words, variables=nowhere).stdout


def test_a_reader_that_has_enough_is_no_error(sandcell: Shell, session: str) -> None:
    sandcell("run", "open('large', 'w').write('a line\\n' * 10_000)")
    for words in (["files", "get", "large", "-o", "-"], ["shell", "cat large"], ["run", "print(open('large').read())"]):
        with sandcell.start(*words) as process:
            assert process.stdout is not None
            assert process.stderr is not None
            process.stdout.close()
            assert process.stderr.read() == ""


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("session sh", "show"),
        ("session show ", "the session"),
        ("run --session ", "the session"),
        ("run --environment py", "python"),
        ("workspace ls ", "the workspace"),
    ],
)
def test_names_are_completed(sandcell: Shell, session: str, words: str, expected: str, service: RunningService) -> None:
    with service.client() as client:
        ids = {"the session": session, "the workspace": client.get_session(session).workspace_id}
    variables = {"_SANDCELL_COMPLETE": "bash_complete", "COMP_WORDS": f"sandcell {words}"}
    done = sandcell(variables={**variables, "COMP_CWORD": str(len(f"sandcell {words}".split(" ")) - 1)})
    assert ids.get(expected, expected) in [line.partition(",")[2] for line in done.stdout.splitlines()]


def test_a_service_that_is_away_completes_nothing(sandcell: Shell) -> None:
    variables = {"_SANDCELL_COMPLETE": "bash_complete", "COMP_WORDS": "sandcell session show ", "COMP_CWORD": "3"}
    done = sandcell(variables={**variables, "SANDCELL_URL": "http://127.0.0.1:9"})
    assert (done.stdout.strip(), done.stderr) == ("", "")


def test_the_script_for_bash_is_one(sandcell: Shell, tmp_path: Path) -> None:
    script = tmp_path / "completion"
    script.write_text(sandcell("completion", "bash").stdout)
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    command = ["bash", "-c", f". {script} && complete -p sandcell"]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    assert "_sandcell_completion" in done.stdout
