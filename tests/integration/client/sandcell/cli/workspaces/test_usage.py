"""`sandcell usage` and `sandcell workspace expire`, as an administrator and as another principal."""

from __future__ import annotations

import json
import uuid

import pytest

from sandcell import Forbidden
from tests.integration.client.sandcell.cli.conftest import Shell
from tests.running_service import RunningService


def test_usage_and_a_rehearsal_of_the_retention(sandcell: Shell, service: RunningService) -> None:
    name = f"somebody-{uuid.uuid4()}"
    with service.client() as admin:
        token = admin.create_token(name).token
    with service.client(token) as client:
        with client.session() as session:
            session.run("open('a', 'w').write('x' * 10)")
            workspace_id = session.info.workspace_id
        assert [(each.principal, each.file_count, each.size_bytes) for each in client.usage().items] == [(name, 1, 10)]
        shown = client.get_workspace(workspace_id)
        assert (shown.file_count, shown.size_bytes) == (1, 10)
        assert shown.touched_at is not None
        with pytest.raises(Forbidden):
            client.expire_workspaces(1)

    lines = sandcell("usage").stdout.splitlines()
    assert [line.split("\t")[:5] for line in lines if line.startswith(name)] == [[name, "1", "0", "1", "10"]]
    own = json.loads(sandcell("usage", "--json", variables={"SANDCELL_TOKEN": str(token)}).stdout)
    assert [each["principal"] for each in own] == [name]

    refused = sandcell("workspace", "expire", "--dry-run")
    assert (refused.returncode, "workspace_retention_days is 0" in refused.stderr) == (7, True)
    planned = sandcell("workspace", "expire", "--dry-run", "--days", "30")
    assert (planned.returncode, planned.stdout) == (0, "")
    assert "would remove 0 workspaces that have not been used for 30 days" in planned.stderr
