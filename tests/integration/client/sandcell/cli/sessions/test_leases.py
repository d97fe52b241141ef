"""`sandcell lease` as a person uses it."""

from __future__ import annotations

import json

from tests.integration.client.sandcell.cli.conftest import Shell


def test_a_person_takes_shows_renews_and_gives_back_a_lease(sandcell: Shell) -> None:
    session = sandcell("session", "new").stdout.strip()
    taken = sandcell("lease", session, "--for", "1m", "--name", "Ada")
    assert taken.returncode == 0, taken.stderr
    lease_id = taken.stdout.strip()
    assert "Ada holds session" in taken.stderr
    assert json.loads(sandcell("lease", session, "--show", "--json").stdout)["holder"] == "Ada"
    assert "Ada has this session" in sandcell("lease", session).stderr
    assert sandcell("lease", session, "--renew", lease_id).stdout.strip() == lease_id
    assert sandcell("lease", session, "--release").returncode == 0
    assert "no lease" in sandcell("lease", session, "--show").stderr
    assert sandcell("lease", session, "--for", "2h").returncode == 2
    sandcell("session", "stop", session)
