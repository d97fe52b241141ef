"""The `sandcell` command as a user starts it: a process of its own, with directories of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.running_service import RunningService


class Shell:
    """Runs `sandcell` in a directory, as one user of a service."""

    def __init__(self, service: RunningService, home: Path) -> None:
        self.directory = home / "work"
        self.directory.mkdir()
        kept = {name: value for name, value in os.environ.items() if not name.startswith("SANDCELL_")}
        self.environment = {
            **kept,
            "XDG_CONFIG_HOME": str(home / "config"),
            "XDG_STATE_HOME": str(home / "state"),
            "SANDCELL_URL": service.url,
            "SANDCELL_TOKEN": service.token,
        }

    def start(self, *arguments: str, variables: Mapping[str, str] | None = None) -> subprocess.Popen[str]:
        """Start a command and let it run."""
        return subprocess.Popen(
            # A shell that runs the tests in the background has SIGINT ignored, and what it starts inherits that.
            ["env", "--default-signal=INT", sys.executable, "-m", "sandcell", *arguments],
            cwd=self.directory,
            env={**self.environment, **(variables or {})},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def __call__(
        self, *arguments: str, stdin: str = "", variables: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run a command to its end."""
        process = self.start(*arguments, variables=variables)
        try:
            stdout, stderr = process.communicate(stdin, timeout=120)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            raise
        return subprocess.CompletedProcess(arguments, process.returncode, stdout, stderr)


@pytest.fixture
def sandcell(service: RunningService, tmp_path: Path) -> Shell:
    return Shell(service, tmp_path)
