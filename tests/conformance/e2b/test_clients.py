"""Every client does what programs do with it, unmodified, against the real service; the program of the docs runs."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from kernel_gateway.faces.e2b.identifiers import format_key
from tests.conformance.e2b.client_environments import SCRIPTS, make_command
from tests.running_service import RunningService

SCRIPT_SECONDS = 240
PAGE = Path(__file__).parents[3] / "docs" / "reference" / "e2b.md"
PROGRAM = re.compile(r"```python\n(.*?)```\n\nIt prints:\n\n```text\n(.*?)```", re.DOTALL)

Run = Callable[[list[str]], str]


@pytest.fixture
def run(service: RunningService, tmp_path: Path) -> Run:
    """Runs a command among the variables that E2B's clients read; returns what it printed."""
    variables = {
        "E2B_API_KEY": format_key(service.token),
        "E2B_API_URL": service.url,
        "E2B_SANDBOX_URL": service.url,
        "HOME": str(tmp_path),
        "PATH": os.environ["PATH"],
    }

    def start(command: list[str]) -> str:
        done = subprocess.run(
            command, env=variables, cwd=tmp_path, capture_output=True, text=True, timeout=SCRIPT_SECONDS, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    return start


@pytest.mark.sample("clients")
@pytest.mark.timeout(900)
@pytest.mark.sample(1)
@pytest.mark.parametrize("name", SCRIPTS)
def test_what_programs_do_works(name: str, run: Run, environments_dir: Path) -> None:
    steps = json.loads(run(make_command(name, environments_dir.parent)).splitlines()[-1])["steps"]
    assert len(steps) > 8
    failed = {row: verdict for row, verdict in steps.items() if verdict != "works"}
    assert not failed, "\n\n".join(f"{row}: {verdict}" for row, verdict in failed.items())


@pytest.mark.long  # it needs the client's environment
@pytest.mark.timeout(900)
def test_the_program_of_the_docs_prints_what_they_say(run: Run, environments_dir: Path, tmp_path: Path) -> None:
    program, printed = PROGRAM.findall(PAGE.read_text())[0]
    (tmp_path / "program.py").write_text(program)
    python = make_command("newest", environments_dir.parent)[0]
    assert run([python, str(tmp_path / "program.py")]) == printed
