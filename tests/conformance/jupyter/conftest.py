"""A live session that an agent works in, a token to attach to it with, and the reports of the clients' scripts."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from sandcell.attaching import lab_config
from tests.conformance.client_environments import make_command, read_report
from tests.conformance.jupyter import client_environments
from tests.running_service import RunningService


@dataclass(frozen=True)
class Agents:
    """A session in which an agent has left `agent = 41`, and what a person gets to attach to it."""

    service: RunningService
    id: str
    token: str

    def printed(self, code: str) -> str:
        """What code prints when the agent runs it."""
        with self.service.client() as client:
            done = client.run(self.id, code)
            assert done.status == "ok", done
            return done.stdout

    def wait_until_running(self, code: str) -> None:
        """Until an execution with this in its code runs, whoever sent it."""
        give_up = time.monotonic() + 120
        with self.service.client() as client:
            while not any(
                each.status == "running" and code in each.code for each in client.list_executions(self.id).items
            ):
                assert time.monotonic() < give_up, f"{code!r} never ran"
                time.sleep(0.05)


@pytest.fixture(scope="session")
def client_environment(environments_dir: Path) -> Callable[[str], Path]:
    """Where a client is installed, by its name; installed if it is not there yet."""
    return lambda name: client_environments.installed(name, environments_dir.parent)


@pytest.fixture(scope="package")
def agents(service: RunningService) -> Iterator[Agents]:
    with service.client() as client:
        session = client.start_session("python", name="the agent's")
        client.run(session.id, "agent = 41")
        token = client.create_attach_token(session.id, name="ana", ttl_seconds=3600).token
        assert token is not None
        yield Agents(service, session.id, token)
        client.stop_session(session.id)


@pytest.fixture(scope="package")
def lab_configuration(agents: Agents, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory that `sandcell attach` writes for JupyterLab."""
    return lab_config.write(tmp_path_factory.mktemp("config"), agents.service.url, agents.token).parent


@pytest.fixture(scope="package")
def said(
    agents: Agents, client_environment: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory
) -> Callable[..., dict[str, Any]]:
    """What a client's script reported of its visit to the agent's session."""

    def report(client: str, script: str, *more: str) -> dict[str, Any]:
        home = tmp_path_factory.mktemp(client)
        arguments = (agents.service.url, agents.token, agents.id, *more)
        command = make_command(client_environment(client), client_environments.SCRIPTS / script, *arguments)
        return read_report(command, os.environ, home)

    return report
