"""Open WebUI's code execution by Jupyter: its module from its wheel, unmodified, by address and token."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conformance.client_environments import make_command, read_report
from tests.conformance.jupyter import client_environments
from tests.running_service import RunningService


@pytest.mark.timeout(900)
@pytest.mark.long
def test_its_code_execution_works(
    service: RunningService, client_environment: Callable[[str], Path], tmp_path: Path
) -> None:
    with service.client() as admin:
        token = admin.create_token("open-webui", "its server").token or ""
    script = client_environments.SCRIPTS / "with_open_webui.py"
    command = make_command(client_environment("open_webui"), script, service.url, token)
    seen = read_report(command, os.environ, tmp_path)
    assert seen["value"] == {"stdout": "shown", "stderr": "", "result": "42"}
    assert "division by zero" in seen["error"]["stderr"]
    assert seen["figure"]["result"].startswith("data:image/png;base64,")
    assert "401" in seen["denied"]["stderr"]
    assert "Execution timed out." in seen["late"]["stderr"]
    with service.client(token) as client:  # each run has a kernel of its own, which is deleted after it
        assert client.list_sessions(status="READY").items == []
