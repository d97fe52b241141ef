"""The programs on the page of doors print what it says, each through its own client."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from tests.conformance.client_environments import installed, make_command, run_script
from tests.running_service import RunningService

HERE = Path(__file__).parent
PAGE = HERE.parents[1] / "docs" / "reference" / "doors.md"
PROGRAM = re.compile(r"```python\n(.*?)```\n\nIt prints:\n\n```text\n(.*?)```", re.DOTALL)
CLIENTS = (("agentcore", "boto3_newest", "agentcore-clients"), ("jupyter", "jupyter_kernel_client", "jupyter-clients"))
"""In the order of the page."""


@pytest.mark.long  # it needs the clients' environments
@pytest.mark.timeout(900)
@pytest.mark.parametrize("number", range(len(CLIENTS)))
def test_the_programs_print_what_the_page_says(
    number: int, service: RunningService, environments_dir: Path, tmp_path: Path
) -> None:
    door, name, clients = CLIENTS[number]
    program, printed = PROGRAM.findall(PAGE.read_text())[number]
    (tmp_path / "program.py").write_text(program)
    place = installed(HERE / door / "clients" / name, environments_dir.parent / clients)
    with service.client() as admin:
        key = admin.create_key("admin")
    variables = {
        "PATH": os.environ["PATH"],
        "SANDCELL_URL": service.url,
        "SANDCELL_TOKEN": service.token,
        "AWS_ACCESS_KEY_ID": key.id,
        "AWS_SECRET_ACCESS_KEY": key.secret_access_key or "",
        "AWS_DEFAULT_REGION": "eu-central-1",
        "AWS_ENDPOINT_URL_BEDROCK_AGENTCORE": service.url,
    }
    assert run_script(make_command(place, tmp_path / "program.py"), variables, tmp_path) == printed
