"""A command whose caller asked for it is stopped when he leaves, and is on record as interrupted."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator

import httpx
import pytest

from sandcell import InvalidRequest
from sandcell.models.sessions import Session
from tests.running_service import RunningService

GUARD_SECONDS = 120


@pytest.fixture
def session(service: RunningService) -> Iterator[Session]:
    with service.client() as client:
        started = client.start_session("python")
        yield started
        client.stop_session(started.id)


def test_it_ends_with_its_caller_if_he_says_so(service: RunningService, session: Session) -> None:
    address = f"{service.url}/v1/sessions/{session.id}/commands"
    headers = {"Authorization": f"Bearer {service.token}"}
    for number, stops in ((71, True), (72, False)):
        body = {"command": f"touch begun-{number}; sleep {number}", "stop_when_gone": stops}
        # The client leaves when it has waited for so long; the command goes on for longer than any test.
        with pytest.raises(httpx.ReadTimeout):
            httpx.post(address, json=body, headers=headers, timeout=httpx.Timeout(5, connect=60), trust_env=False)
    until = time.monotonic() + GUARD_SECONDS
    with service.client() as client:
        while (
            "sleep\x0071" in (running := client.command(session.id, "cat /proc/*/cmdline").stdout)
            or "begun-72" not in client.command(session.id, "ls").stdout
        ):
            assert time.monotonic() < until, "the command goes on"
        assert "sleep\x0072" in running, "one that did not ask for it was stopped as well"
        with pytest.raises(InvalidRequest, match="stop_when_gone"):
            client.command(session.id, "true", background=True, stop_when_gone=True)
        cells = {"".join(cell["source"]): cell for cell in json.loads(client.notebook(session.id))["cells"]}
    (stopped,) = [cell for source, cell in cells.items() if "sleep 71" in source]
    assert stopped["metadata"]["sandcell"]["status"] == "interrupted"
