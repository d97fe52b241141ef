"""One service, and what each client's script reported of it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.agent_engine.client_environments import CLIENT_NAMES, STEPS, make_command
from tests.conformance.client_environments import read_report
from tests.running_service import RunningService


@pytest.fixture(scope="session")
def report(
    service: RunningService, environments_dir: Path, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str], dict[str, Any]]:
    """What a client's script said: its version, and each step with its verdict. A script runs once."""
    reports: dict[str, dict[str, Any]] = {}

    def run(name: str) -> dict[str, Any]:
        if name not in reports:
            home = tmp_path_factory.mktemp(name)
            variables = {"SANDCELL_URL": service.url, "SANDCELL_TOKEN": service.token, "PYTHONPATH": str(STEPS)}
            command = make_command(CLIENT_NAMES[name], environments_dir.parent)
            reports[name] = read_report(command, {**variables, "NO_PROXY": "127.0.0.1"}, home)
        return reports[name]

    return run
