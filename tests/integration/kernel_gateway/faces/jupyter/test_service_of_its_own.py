"""What needs a service of its own: short pings, its memory, its log, and its end."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import threading
import time
from collections.abc import Callable, Iterator

import httpx
import psutil
import pytest
from websockets.exceptions import InvalidStatus

from sandcell import Session
from tests.integration.kernel_gateway.faces.jupyter.conftest import Face, http_of
from tests.integration.kernel_gateway.faces.jupyter.test_bad_frames import raw, until
from tests.integration.kernel_gateway.faces.jupyter.wire import result_of, text_of
from tests.running_service import RunningService

MEGABYTE = 1_000_000
FLOOD = """
import time
for number in range(60):
    print('x' * 999_999, flush=True)
    time.sleep(0.05)
print('over')
"""


SETTINGS = {"attach_ping_seconds": 1.0, "invocations_per_second": 1000, "log_level": "info"}


@pytest.fixture(scope="module")
def own(make_service: Callable[..., RunningService]) -> RunningService:
    return make_service(**SETTINGS)


@pytest.fixture(scope="module")
def session(own: RunningService) -> Iterator[Session]:
    """Ends with the service."""
    with own.client() as client:
        yield client.attach(client.start_session("python").id)


@pytest.fixture(scope="module")
def face(own: RunningService, session: Session) -> Iterator[Face]:
    with face_of(own, session) as face:
        yield face


@contextlib.contextmanager
def face_of(service: RunningService, session: Session) -> Iterator[Face]:
    token = session.create_attach_token(name="Ada").token
    assert token is not None
    with http_of(service.url, token) as http:
        yield Face(service.url, token, session.id, http)


@pytest.mark.sample("doors")
def test_an_idle_client_is_pinged_and_stays(face: Face) -> None:
    with face.wire() as wire:
        wire.finished(wire.send("shell", "kernel_info_request", {}))
        with pytest.raises(TimeoutError):
            wire.socket.recv(timeout=6)
        assert result_of(wire.run("1 + 2")) == "3"


@pytest.mark.sample("doors")
def test_a_client_stays_when_the_service_has_stood_still(face: Face, own: RunningService) -> None:
    with face.wire() as wire:
        wire.finished(wire.send("shell", "kernel_info_request", {}))
        os.kill(own.service_pid, signal.SIGSTOP)
        time.sleep(6)
        os.kill(own.service_pid, signal.SIGCONT)
        with pytest.raises(TimeoutError):
            wire.socket.recv(timeout=3)
        assert result_of(wire.run("1 + 2")) == "3"


@pytest.mark.sample("doors")
def test_a_client_that_does_not_answer_pings_is_let_go(face: Face) -> None:
    with raw(face) as client:
        while client.recv(4096):  # pings, and the end at last
            pass
        until(lambda: face.http.get(f"/api/kernels/{face.kernel_id}").json()["connections"] == 0)


@pytest.mark.sample("doors")
def test_a_revoked_token_counts_no_longer_anywhere(face: Face, session: Session) -> None:
    made = session.create_attach_token(name="Bob")
    assert made.token is not None
    with face.wire(token=made.token) as wire:
        wire.finished(wire.send("shell", "kernel_info_request", {}))
        session.revoke_attach_token(made.id)
        assert wire.closed()[0] == 1008
    answer = httpx.get(f"{face.url}/api/kernels", headers={"Authorization": f"token {made.token}"})
    assert answer.status_code == 401
    with pytest.raises(InvalidStatus), face.wire(token=made.token):
        pass
    shown = {each.id: each for each in session.list_attach_tokens().items}
    assert shown[made.id].revoked_at is not None
    assert all(each.token is None for each in shown.values())


@pytest.mark.sample("doors")
def test_who_does_not_read_costs_the_service_no_memory(face: Face, own: RunningService) -> None:
    """Much is printed past a client that reads nothing; another one, who reads, gets the end of it."""
    process = psutil.Process(own.service_pid)
    with raw(face), face.wire() as reader:
        reader.run("1")
        before, most = process.memory_info().rss, 0
        over = threading.Event()

        def read() -> None:
            seen = reader.run(FLOOD)
            assert text_of(seen).endswith("over\n")
            over.set()

        reading = threading.Thread(target=read)
        reading.start()
        while not over.is_set() and reading.is_alive():
            most = max(most, process.memory_info().rss)
            over.wait(0.05)
        reading.join()
        assert over.is_set()
        until(lambda: face.http.get(f"/api/kernels/{face.kernel_id}").json()["connections"] == 1)
    assert most - before < 70 * MEGABYTE


@pytest.mark.sample("doors")
def test_nobody_attached_costs_the_service_no_memory(face: Face, own: RunningService, session: Session) -> None:
    process = psutil.Process(own.service_pid)
    with face.wire() as wire:
        wire.run("1")
        before = process.memory_info().rss
        wire.execute(FLOOD)
    session.run("'waits for its turn'")
    assert process.memory_info().rss - before < 70 * MEGABYTE


@pytest.mark.sample("doors")
def test_a_service_that_ends_drains(own: RunningService, make_service: Callable[..., RunningService]) -> None:
    """Attached clients are asked to come back, and no token is in the log of this service or of the other tests'."""
    ended = make_service(**SETTINGS)
    with ended.client() as client, face_of(ended, client.attach(client.start_session("python").id)) as face:
        assert face.http.get("/api/kernels", params={"token": face.token}).status_code == 200
        with face.wire(in_query=True) as wire:
            wire.run("'secret output'")
            ending = threading.Thread(target=ended.stop)
            ending.start()
            code, _ = wire.closed()
            ending.join()
    assert code == 1012
    log = "".join([*ended.output, *own.output])
    assert "/api/kernels" in log
    assert not re.search(rf"token=|{re.escape(face.token)}|secret output", log)
