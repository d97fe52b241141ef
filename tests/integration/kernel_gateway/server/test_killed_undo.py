"""A service that is killed in the middle of an undo: the next one finishes it, before anything else runs."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from tests.integration.kernel_gateway.server.eventually import eventually
from tests.integration.kernel_gateway.server.rest import LiveSession
from tests.integration.kernel_gateway.server.test_faults import Callers
from tests.integration.kernel_gateway.server.test_killed_hibernation import ask
from tests.running_service import RunningService

FILL = """
log = [1]
for number in range(200): open(f'file-{number}', 'w').write('good')
"""
SPOIL = """
log.append('bad'); open('made', 'w').close()
for number in range(200): open(f'file-{number}', 'w').write('bad')
"""
STATE = "(log, {open(f'file-{number}').read() for number in range(200)}, __import__('os').path.exists('made'))"
GOOD = "([1], {'good'}, False)"
LONGEST_PAUSE_SECONDS = 1.0
"""From the moment that an undo has begun to the kill: more than most of them take."""


@pytest.fixture
def callers() -> Iterator[Callers]:
    callers = Callers()
    yield callers
    callers.close()


def count_notes(session: LiveSession, words: str) -> int:
    notebook = session.rest.get(f"{session.path}/notebook")
    return sum("".join(each["source"]).startswith(words) for each in notebook["cells"])


@pytest.mark.long
@pytest.mark.parametrize("kept", [True, False], ids=["to a checkpoint", "to what is built again"])
def test_an_undo_that_has_begun_is_done_whenever_the_service_is_killed(
    callers: Callers, make_service: Callable[..., RunningService], kept: bool
) -> None:
    service = make_service()
    session = callers.of(service).session()
    session.run(FILL)
    for begun in range(1, 4):
        if kept:
            session.rest.post(f"{session.path}/checkpoints")
        session.run(SPOIL)
        cut_off = threading.Thread(target=ask, args=(service, f"{session.path}/undo", {"cells": 1}))
        cut_off.start()
        eventually(lambda session=session, begun=begun: count_notes(session, "**Undo**, back to") == begun)
        time.sleep(random.uniform(0, LONGEST_PAUSE_SECONDS))  # each moment is as good
        service.kill()
        cut_off.join(60)
        service.start()
        session = callers.again(service, session)
        done = session.run(STATE)
        assert done["outputs"][0]["data"]["text/plain"] == GOOD
        assert count_notes(session, "**Undone:**") == begun
        assert count_notes(session, "**Undo failed") == 0
        session.run("log")  # what is undone next is what comes after this
    session.stop()
    assert service.stop() == 0
