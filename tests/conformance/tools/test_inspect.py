"""Inspect finds the sandbox `sandcell` by its entry point; its own checks and the example of the docs run on it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conformance import client_environments
from tests.conformance.tools import scripted_model
from tests.conformance.tools.test_examples import REPOSITORY, find_block, make_variables
from tests.running_service import RunningService

CLIENTS = Path(__file__).parent / "clients"
PAGE = (REPOSITORY / "docs/reference/inspect.md").read_text()
REFUSED = {"test_exec_as_user", "test_exec_large_command"}
"""Checks that do not pass, as the page says: code runs as one user, and a command's output is bounded to 1 MB."""


@pytest.fixture(scope="module")
def place(environments_dir: Path) -> Path:
    return client_environments.installed(CLIENTS / "inspect_ai", environments_dir.parent / "tools-clients")


@pytest.fixture(scope="module")
def client_package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The client as it is installed, with its entry points, in a directory of its own."""
    directory = tmp_path_factory.mktemp("client")
    client_environments.install_package(REPOSITORY / "client", directory)
    return directory


@pytest.mark.timeout(900)
@pytest.mark.long
def test_the_checks_of_inspect_pass_but_for_those_that_the_page_names(
    service: RunningService, place: Path, client_package: Path, tmp_path: Path
) -> None:
    variables = make_variables(service, "http://127.0.0.1:9", client_package)
    command = client_environments.make_command(place, CLIENTS / "scripts" / "with_self_check.py")
    steps = client_environments.read_report(command, variables, tmp_path)["steps"]
    failed = {name: verdict for name, verdict in steps.items() if verdict != "works"}
    assert len(steps) == 44
    assert failed.keys() == REFUSED, "\n\n".join(f"{name}: {verdict}" for name, verdict in failed.items())
    with service.client() as client:
        assert not [each for each in client.list_sessions(status="READY").items if "inspect-task" in each.labels]


@pytest.mark.timeout(900)
@pytest.mark.long
def test_the_evaluation_of_the_page(service: RunningService, place: Path, client_package: Path, tmp_path: Path) -> None:
    with scripted_model.serve() as model:
        variables = make_variables(service, model, client_package)
        command = [str(place / "bin" / "python"), "-c", find_block(PAGE, "An evaluation", "python")]
        printed = client_environments.run_script(command, variables, tmp_path)
    assert printed == find_block(PAGE, "An evaluation", "text")
