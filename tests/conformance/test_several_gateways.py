"""Other people's clients, unmodified, against two gateways behind a plain proxy that asks them in turn."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from kernel_gateway.faces.e2b.identifiers import format_key
from tests.conformance.agent_engine import client_environments as agent_engine
from tests.conformance.client_environments import read_report
from tests.conformance.e2b import client_environments as e2b
from tests.gateways import Gateways, MakeService, in_turn
from tests.postgresql_server import PostgresqlServer

pytestmark = [pytest.mark.long, pytest.mark.timeout(1800)]
ROUNDS = 2
"""How often each script runs: an operation that has come to one gateway comes to the other."""


@pytest.fixture(scope="module")
def front(
    make_service: MakeService, postgresql: PostgresqlServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[str, str]]:
    """Where both are asked, and the administrator's token."""
    url = postgresql.create_database(migrated=False)
    gateways = Gateways(make_service, url, tmp_path_factory.mktemp("shared") / "store", invocations_per_second=1000)
    both = gateways.start_two()
    with in_turn(both, tmp_path_factory.mktemp("nginx")) as address:
        yield address, both[0].token


def check(command: list[str], variables: dict[str, str], home: Path) -> None:
    for _ in range(ROUNDS):
        steps = read_report(command, variables, home)["steps"]
        failed = {row: verdict for row, verdict in steps.items() if verdict != "works"}
        assert steps
        assert not failed, "\n\n".join(f"{row}: {verdict}" for row, verdict in failed.items())


@pytest.mark.parametrize("name", e2b.SCRIPTS)
def test_clients_of_e2b(name: str, front: tuple[str, str], environments_dir: Path, tmp_path: Path) -> None:
    address, token = front
    variables = {"E2B_API_KEY": format_key(token), "E2B_API_URL": address, "E2B_SANDBOX_URL": address}
    check(e2b.make_command(name, environments_dir.parent), {**variables, "PATH": os.environ["PATH"]}, tmp_path)


@pytest.mark.parametrize("name", agent_engine.CLIENT_NAMES)
def test_clients_of_agent_engine(name: str, front: tuple[str, str], environments_dir: Path, tmp_path: Path) -> None:
    address, token = front
    variables = {"SANDCELL_URL": address, "SANDCELL_TOKEN": token, "PYTHONPATH": str(agent_engine.STEPS)}
    command = agent_engine.make_command(agent_engine.CLIENT_NAMES[name], environments_dir.parent)
    check(command, {**variables, "NO_PROXY": "127.0.0.1"}, tmp_path)
