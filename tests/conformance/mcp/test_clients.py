"""Every client does what the tools offer, unmodified, over both transports, against the real service."""

from __future__ import annotations

import os
import re
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.client_environments import make_command, read_report, run_script
from tests.conformance.mcp import client_environments
from tests.running_service import RunningService

GUARD_SECONDS = 120
PAGE = Path(__file__).parents[3] / "docs" / "reference" / "mcp.md"
PROGRAM = re.compile(r"## A program\n\n```python\n(.*?)```\n\n```text\n(.*?)```", re.DOTALL)
ENDS = ("sdk", "sdk_1")
"""Clients that end their sessions when they leave; those of others end when they have been idle."""
CASES = [(name, transport) for name in client_environments.SCRIPTS for transport in ("http", "stdio")]


def report(
    service: RunningService, token: str, environments_dir: Path, name: str, transport: str, home: Path
) -> dict[str, Any]:
    place = client_environments.installed(name, environments_dir.parent)
    script = client_environments.CLIENTS / "scripts" / client_environments.SCRIPTS[name]
    sandcell = str(Path(sys.executable).parent / "sandcell")
    return read_report(make_command(place, script, transport, service.url, token, sandcell), os.environ, home)


@pytest.mark.sample("clients")
@pytest.mark.timeout(900)
@pytest.mark.sample(1)
@pytest.mark.parametrize(("name", "transport"), CASES, ids=["-".join(each) for each in CASES])
def test_everything_a_client_offers_works(
    service: RunningService, environments_dir: Path, tmp_path: Path, name: str, transport: str
) -> None:
    with service.client() as admin:
        token = admin.create_token(f"mcp-{name}-{transport}", "client").token or ""
    steps = report(service, token, environments_dir, name, transport, tmp_path)["steps"]
    failed = {row: verdict for row, verdict in steps.items() if verdict != "works"}
    assert steps
    assert not failed, "\n\n".join(f"{row}: {verdict}" for row, verdict in failed.items())
    if name in ENDS:
        until = time.monotonic() + GUARD_SECONDS
        with service.client(token) as client:
            while client.list_sessions(status="READY").items:
                assert time.monotonic() < until, "the client has ended its session, and the sandboxes stay"
                time.sleep(0.1)


@pytest.mark.long  # it needs the client's environment
@pytest.mark.timeout(900)
def test_the_program_of_the_page_prints_what_it_says(
    service: RunningService, environments_dir: Path, tmp_path: Path
) -> None:
    (found,) = PROGRAM.findall(PAGE.read_text())
    (tmp_path / "program.py").write_text(found[0])
    place = client_environments.installed("sdk", environments_dir.parent)
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    variables = {"PATH": path, "SANDCELL_URL": service.url, "SANDCELL_TOKEN": service.token}
    assert run_script(make_command(place, tmp_path / "program.py"), variables, tmp_path) == found[1]
