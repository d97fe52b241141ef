"""The service ends while a replay runs: nothing of the replay is left, even where sessions are kept."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from sandcell import NotFound
from tests.integration.kernel_gateway.services.replays.conftest import code, notebook
from tests.running_service import RunningService


def test_a_replay_ends_with_the_service(make_service: Callable[..., RunningService]) -> None:
    service = make_service(keep_sessions_on_shutdown=True)
    with service.client() as client:
        replay = client.start_replay(notebook(code("import time\ntime.sleep(60)")))
        cell = next(event for event in client.replay_events(replay.id) if event.event == "cell")
        assert cell.data["number"] == 1
    assert service.stop() == 0
    service.start()
    with service.client() as client:
        assert client.list_sessions(status="READY").items == []
        assert [each.ended.reason for each in client.list_sessions().items if each.ended] == ["stopped"]
        with pytest.raises(NotFound):
            client.get_replay(replay.id)
