"""LibreChat's own package, unmodified, does what LibreChat does with it against the real service."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.conformance.client_environments import installed, make_command, read_report, run_script
from tests.running_service import RunningService

CLIENTS = Path(__file__).parent / "clients"
PAGE = Path(__file__).parents[3] / "docs" / "reference" / "librechat.md"
FENCES = "```javascript\n", "```\n\nIt prints:\n\n```text\n"


@pytest.fixture
def variables(service: RunningService) -> dict[str, str]:
    """What LibreChat is given: the token in the address, or as the key that older releases send."""
    with service.client() as admin:
        token = admin.create_token("librechat").token or ""
    return {"CODE_KEY": token, "LIBRECHAT_CODE_API_KEY": token, "PATH": os.environ["PATH"], "URL": service.url}


def place_token(variables: dict[str, str], name: str) -> dict[str, str]:
    key = "" if name == "older" else variables["CODE_KEY"] + "/"
    return {**variables, "LIBRECHAT_CODE_BASEURL": f"{variables['URL']}/librechat/{key}v1"}


@pytest.mark.long  # each of the two environments has half a gigabyte
@pytest.mark.timeout(900)
@pytest.mark.parametrize(("name", "rows"), [("newest", 8), ("older", 4)])
def test_what_librechat_does_works(
    name: str, rows: int, variables: dict[str, str], environments_dir: Path, tmp_path: Path
) -> None:
    place = installed(CLIENTS / name, environments_dir.parent / "librechat-clients")
    command = make_command(place, CLIENTS / "scripts" / f"with_{name}.mjs")
    steps = read_report(command, place_token(variables, name), tmp_path)["steps"]
    assert len(steps) == rows
    failed = {row: verdict for row, verdict in steps.items() if verdict != "works"}
    assert not failed, "\n\n".join(f"{row}: {verdict}" for row, verdict in failed.items())


@pytest.mark.long  # it needs the package's environment
@pytest.mark.timeout(900)
def test_the_program_of_the_docs_prints_what_they_say(
    variables: dict[str, str], environments_dir: Path, tmp_path: Path
) -> None:
    begin, middle = FENCES
    program, rest = PAGE.read_text().split(begin, 1)[1].split(middle, 1)
    place = installed(CLIENTS / "newest", environments_dir.parent / "librechat-clients")
    script = tmp_path / "of_the_docs.mjs"
    script.write_text(program)
    command = make_command(place, script)
    assert run_script(command, place_token(variables, "newest"), tmp_path) == rest.split("```", 1)[0]
