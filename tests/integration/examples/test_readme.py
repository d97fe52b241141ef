"""The blocks of the README do what it says, run in their order as a reader would type them."""

from __future__ import annotations

import doctest
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.running_service import RunningService

README = Path(__file__).parents[3] / "README.md"
BLOCK = re.compile(r"^```(console|python|sh)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
ADDRESS = "http://127.0.0.1:8899"
ELSEWHERE = ("make ", "sandcell attach --open")
"""Commands with tests of their own: `make` starts the service, the other one JupyterLab."""


@dataclass
class Reader:
    """Somebody with a shell, on a machine where the service was started by `make run`."""

    service: RunningService
    home: Path
    variables: dict[str, str] = field(init=False)

    def __post_init__(self) -> None:
        others = ("AWS_", "BEDROCK_", "SANDCELL_", "XDG_")
        self.variables = {name: value for name, value in os.environ.items() if not name.startswith(others)} | {
            "HOME": str(self.home),
            "XDG_CONFIG_HOME": str(self.service.data_dir / "config"),
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "AWS_EC2_METADATA_DISABLED": "true",
        }

    def shell(self, script: str) -> str:
        """What the script prints; the variables that it exports stay for those that follow."""
        kept = self.home / "variables"
        typed = script.replace(ADDRESS, self.service.url).replace("sandcell_...", self.service.token)
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", f"{typed}\nenv -0 > {kept}"],
            env=self.variables,
            cwd=self.home,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert done.returncode == 0, f"{typed}\n{done.stdout}{done.stderr}"
        self.variables = dict(line.split("=", 1) for line in kept.read_text().split("\0") if line)
        return done.stdout + done.stderr

    def python(self, program: str) -> str:
        (self.home / "program.py").write_text(program)
        return self.shell(f"{sys.executable} program.py")


@pytest.fixture
def reader(service: RunningService, tmp_path: Path) -> Reader:
    return Reader(service, tmp_path)


def typed(console: str) -> Iterator[tuple[str, str]]:
    """Each command of a block, with what it prints."""
    for part in re.split(r"^\$ ", console, flags=re.MULTILINE)[1:]:
        command, _, printed = part.partition("\n")
        yield command, printed


def test_every_block_does_what_the_page_says(reader: Reader) -> None:
    checker = doctest.OutputChecker()
    blocks = BLOCK.findall(README.read_text())
    assert {language for language, _ in blocks} == {"console", "python", "sh"}
    for language, text in blocks:
        if language == "python":
            assert reader.python(text).split("\n")[:-1] == re.findall(r"  # (.+)$", text, re.MULTILINE)
        elif language == "sh":
            lines = [line for line in text.splitlines() if not line.startswith(ELSEWHERE)]
            printed = reader.shell("\n".join(lines))
            assert "executions" not in text or '"text/plain":"42"' in printed, printed
        else:
            for command, expected in typed(text):
                if not f"{command} ".startswith(ELSEWHERE):
                    printed = reader.shell(command)
                    assert checker.check_output(expected, printed, doctest.ELLIPSIS), f"$ {command}\n{printed}"
