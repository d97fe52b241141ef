"""A service that is killed while a session hibernates or wakes: nothing of the session is lost, nothing is left."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from tests.integration.kernel_gateway.server.eventually import eventually
from tests.integration.kernel_gateway.server.test_faults import Callers
from tests.running_service import RunningService

MakeService = Callable[..., RunningService]
FRACTIONS = (0.3, 0.5, 0.7)
"""Of the time that it takes undisturbed, when the service is killed."""
FILL = "value, data = 41, bytes(3_000_000); open('f', 'w').write('file')"
CHECK = "(value, len(data), open('f').read())"
CHECKED = "(41, 3000000, 'file')"


@pytest.fixture
def callers() -> Iterator[Callers]:
    callers = Callers()
    yield callers
    callers.close()


def stored(service: RunningService) -> list[Path]:
    return [each for each in (service.data_dir / "store" / "variables").rglob("*") if each.is_file()]


@pytest.mark.long
@pytest.mark.parametrize("fraction", FRACTIONS)
@pytest.mark.parametrize("verb", ["hibernate", "resume"])
@pytest.mark.parametrize("runtime", ["runc", "runsc"])
def test_a_kill_at_any_moment_loses_nothing(
    callers: Callers, make_service: MakeService, runtime: str, verb: str, fraction: float
) -> None:
    service = make_service(runtime=runtime)
    session = callers.of(service).session()
    session.run(FILL)
    took = {}
    for each in ("hibernate", "resume"):
        began = time.monotonic()
        session.rest.post(f"{session.path}/{each}")
        took[each] = time.monotonic() - began
    if verb == "resume":
        session.rest.post(f"{session.path}/hibernate")
    cut_off = threading.Thread(target=ask, args=(service, f"{session.path}/{verb}"))
    cut_off.start()
    time.sleep(took[verb] * fraction)  # no matter what is reached by then: each moment is as good
    service.kill()
    cut_off.join(60)
    service.start()
    session = callers.again(service, session)
    assert session.show()["status"] in {"READY", "HIBERNATED"}
    assert session.run(CHECK)["outputs"][0]["data"]["text/plain"] == CHECKED
    assert session.show()["status"] == "READY"
    session.stop()
    eventually(lambda: stored(service) == [])
    assert service.stop() == 0


def ask(service: RunningService, path: str, body: object = None) -> None:
    """A call that the kill cuts off, or that is answered before it."""
    try:
        httpx.post(f"{service.url}{path}", headers={"Authorization": f"Bearer {service.token}"}, json=body, timeout=60)
    except httpx.TransportError:
        return
