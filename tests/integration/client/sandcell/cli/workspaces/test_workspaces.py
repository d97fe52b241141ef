"""`sandcell workspace` on durable files, as its user types it."""

from __future__ import annotations

import json
import zipfile

import pytest

from tests.integration.client.sandcell.cli.conftest import Shell
from tests.running_service import RunningService


@pytest.fixture(scope="module")
def workspaces(service: RunningService) -> tuple[str, str]:
    """Two whose sessions have ended, the first with a file."""
    found = []
    with service.client() as client:
        for _ in range(2):
            with client.session() as session:
                found.append(session.info.workspace_id)
        client.workspace_upload(found[0], "out/ten", b"0123456789")
    return found[0], found[1]


def test_files_are_shown_and_packed(sandcell: Shell, workspaces: tuple[str, str]) -> None:
    one = workspaces[0]
    shown = json.loads(sandcell("workspace", "stat", one, "out/ten", "--json").stdout)
    assert (shown["kind"], shown["size"]) == ("file", 10)
    assert sandcell("workspace", "cat", one, "out/ten", "--range=-3").stdout == "789"
    assert sandcell("workspace", "cat", one, "out/ten", "--range", "10-").returncode == 7
    assert sandcell("workspace", "archive", one, "-o", "all.zip").returncode == 0
    assert zipfile.ZipFile(sandcell.directory / "all.zip").namelist() == ["out/", "out/ten"]
    refused = sandcell("workspace", "link", one, "out/ten")
    assert (refused.returncode, refused.stdout) == (7, "")
    assert "download the file" in refused.stderr


def test_files_are_copied_and_deleted_after_a_dry_run(sandcell: Shell, workspaces: tuple[str, str]) -> None:
    one, two = workspaces
    assert "would copy 1 files (10 bytes)" in sandcell("workspace", "copy", one, two, "--dry-run").stderr
    copied = json.loads(sandcell("workspace", "copy", one, two, "out", "--to-path", "from", "--json").stdout)
    assert copied["paths"] == ["from/out", "from/out/ten"]
    shown = sandcell("workspace", "rm", two, "from", "-r", "--dry-run")
    assert shown.stderr.splitlines() == ["would remove 1 files (10 bytes)", "  from", "  from/out", "  from/out/ten"]
    kept = sandcell("workspace", "delete", two, stdin="n\n")
    assert (kept.returncode, kept.stderr.count("Delete 1 files (10 bytes)?")) == (1, 1)
    assert sandcell("workspace", "delete", two, stdin="y\n").returncode == 0
    assert sandcell("workspace", "delete", two, "--yes").returncode == 7
