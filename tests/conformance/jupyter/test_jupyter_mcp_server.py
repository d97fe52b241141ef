"""jupyter-mcp-server, unmodified, with a live session for its kernel: an agent's way to a notebook that people edit."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.client_environments import make_command, read_report
from tests.conformance.jupyter import client_environments
from tests.running_service import RunningService


@pytest.mark.timeout(900)
@pytest.mark.long
def test_its_tools_work_on_a_live_session(
    service: RunningService, client_environment: Callable[[str], Path], tmp_path: Path
) -> None:
    script = client_environments.SCRIPTS / "with_jupyter_mcp_server.py"
    with service.client() as client, client.session("python") as session:
        session.run("agent = 41")
        place = client_environment("jupyter_mcp_server")
        seen: dict[str, Any] = read_report(
            make_command(place, script, service.url, service.token, session.id), os.environ, tmp_path
        )
        assert session.id in seen["kernels"][0]
        assert seen["shared"] == ["42\n"]
        assert "ZeroDivisionError: division by zero" in seen["error"][0]
        assert seen["plot"] == ["image"]
        assert "was interrupted" in seen["too long"][0]
        assert f"Connected to kernel '{session.id}'" in seen["used"][0]
        assert seen["cell"][0] == "42\n"
        assert any("person = agent + 1" in each for each in seen["notebook"])
        assert "restarted successfully" in seen["restarted"][0]
        assert seen["after"] == ["False"]
        assert session.refresh().generation == 2, "the session went on"
        cells = json.loads(session.notebook())["cells"]
    faces = [each["metadata"]["sandcell"]["face"] for each in cells if "person = agent" in "".join(each["source"])]
    assert faces == ["jupyter"]
