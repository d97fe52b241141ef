"""The program of the docs is run as it stands there, and prints what stands below it."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from tests.conformance.agent_engine.client_environments import CLIENT_NAMES, make_command
from tests.running_service import RunningService

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "agent-engine.md"


@pytest.mark.long  # the import of Google's library alone takes seconds
@pytest.mark.timeout(900)
def test_the_program_of_the_docs(service: RunningService, environments_dir: Path, tmp_path: Path) -> None:
    found = re.search(r"```python\n(.*?)```\n\n```text\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert found is not None
    program, printed = found.groups()
    python = make_command(CLIENT_NAMES["agentplatform"], environments_dir.parent)[0]
    done = subprocess.run(
        [python, "-c", program],
        env={"SANDCELL_URL": service.url, "SANDCELL_TOKEN": service.token, "NO_PROXY": "127.0.0.1"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, printed), done.stderr
