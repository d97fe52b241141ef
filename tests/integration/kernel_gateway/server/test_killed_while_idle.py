"""A real service is killed while a session of its stands still: it is taken up with all that it had in memory."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from tests.integration.kernel_gateway.server.rest import LiveSession, Rest
from tests.running_service import RunningService
from tests.swap_file import swap_file

DEADLINE_SECONDS = 120


def until_paged_out(rest: Rest, path: str) -> None:
    give_up = time.monotonic() + DEADLINE_SECONDS
    while rest.get(path)["memory"] != "paged_out":
        assert time.monotonic() < give_up, rest.get(path)
        time.sleep(0.1)


@pytest.mark.sample("kills")
def test_a_session_that_stands_still_outlives_its_service(make_service: Callable[..., RunningService]) -> None:
    with swap_file(128):
        service = make_service(idle_memory_seconds=0.01)
        with Rest(service) as rest:
            session = rest.session()
            session.run("kept = 41")
            until_paged_out(rest, session.path)
            assert session.run("print(kept)")["stdout"] == "41\n"
            until_paged_out(rest, session.path)
            service.kill()
        service.start()
        with Rest(service) as rest:
            again = LiveSession(rest, rest.get(session.path))
            assert again.run("print(kept + 1)")["stdout"] == "42\n"
            assert rest.get(session.path)["generation"] == 1
            again.stop()
