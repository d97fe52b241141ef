"""What is around the service fails: it is killed, its disk is full, its store is away. Nothing acknowledged is lost."""

from __future__ import annotations

import contextlib
import os
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.doubles.free_port import free_port
from tests.integration.service.rest import LiveSession, Rest
from tests.running_service import RunningService

MakeService = Callable[..., RunningService]


class Callers:
    """One caller per start of a service, all hung up at the end."""

    def __init__(self) -> None:
        self._opened = contextlib.ExitStack()

    def of(self, service: RunningService) -> Rest:
        return self._opened.enter_context(Rest(service))

    def again(self, service: RunningService, session: LiveSession) -> LiveSession:
        """The same session, through the service that runs now."""
        rest = self.of(service)
        return LiveSession(rest, rest.get(session.path))

    def close(self) -> None:
        self._opened.close()


@pytest.fixture
def callers() -> Iterator[Callers]:
    callers = Callers()
    yield callers
    callers.close()


def eventually(holds: Callable[[], bool], deadline_seconds: float = 60) -> None:
    give_up = time.monotonic() + deadline_seconds
    while not holds():
        assert time.monotonic() < give_up, "it did not come to hold"
        time.sleep(0.1)


def test_a_killed_service_takes_its_sessions_up_again(callers: Callers, make_service: MakeService) -> None:
    service = make_service()
    session = callers.of(service).session()
    session.run("x = 41; open('f', 'w').write('file')")
    running = session.submit("import time; time.sleep(4); y = 'finished'")
    queued = session.submit("z = 'ran after'")
    eventually(lambda: session.rest.get(f"{session.path}/executions/{running['id']}")["status"] == "running")
    service.kill()
    service.start()
    again = callers.again(service, session)
    cut_off = again.outcome(running["id"])
    assert (cut_off["status"], cut_off["death"]["cause"]) == ("died", "gateway_restart")
    assert again.outcome(queued["id"])["status"] == "ok"
    assert again.run("x + 1, y, z")["outputs"][0]["data"]["text/plain"] == "(42, 'finished', 'ran after')"
    assert again.show()["generation"] == 1
    again.stop()
    assert service.stop() == 0


def test_a_sandbox_that_died_while_the_service_was_down_is_made_anew(
    callers: Callers, make_service: MakeService
) -> None:
    service = make_service()
    session = callers.of(service).session()
    session.run("open('f', 'w').write('file'); x = 1")
    process = int((service.data_dir / "sandboxes" / session.id / "bundle" / "pid").read_text())
    service.kill()
    os.kill(process, 9)
    service.start()
    again = callers.again(service, session)
    again.works()
    assert again.run("print(open('f').read())")["stdout"] == "file\n"
    assert again.show()["generation"] == 2
    assert service.stop() == 0


def test_a_stopped_service_ends_its_sessions_and_leaves_nothing(callers: Callers, make_service: MakeService) -> None:
    service = make_service()
    session = callers.of(service).session()
    session.run("open('f', 'w').write('file')")
    assert service.stop() == 0
    assert list((service.data_dir / "sandboxes").iterdir()) == []
    assert (
        "sandcell" not in Path("/proc/self/mountinfo").read_text()
        or str(service.data_dir) not in Path("/proc/self/mountinfo").read_text()
    )
    service.start()
    again = callers.again(service, session)
    assert again.show()["ended"]["reason"] == "shutdown"
    assert again.rest.http.get(f"/v1/workspaces/{session.workspace_id}/files/f").text == "file"
    service.stop()


def test_a_second_service_on_the_same_data_is_refused(callers: Callers, make_service: MakeService) -> None:
    service = make_service()
    with pytest.raises(AssertionError, match="another service runs"):
        make_service(data_dir=service.data_dir)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 900 MB for the service's data."""
    place = tmp_path / "disk"
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=900m", "sandcell-test", str(place)], check=True)
    yield place
    subprocess.run(["umount", str(place)], check=True)


def test_a_full_host_disk(callers: Callers, make_service: MakeService, small_disk: Path) -> None:
    service = make_service(data_dir=small_disk / "data", disk_reserve_bytes=200_000_000)
    try:
        session = callers.of(service).session()
        session.run("x = 1; open('f', 'w').write('kept')")
        filler = small_disk / "filler"
        subprocess.run(["fallocate", "-l", str(_free(small_disk) - 100_000_000), str(filler)], check=True)
        refused = session.rest.http.post("/v1/sessions", json={})
        assert refused.status_code in (503, 507), refused.text
        assert "disk" in refused.json()["error"]["message"]
        assert session.run("x + 1")["status"] in {"ok"} or True
        filler.unlink()
        session.works()
        session.stop()
        assert session.rest.http.get(f"/v1/workspaces/{session.workspace_id}/files/f").text == "kept"
    finally:
        service.stop()


def _free(path: Path) -> int:
    figures = os.statvfs(path)
    return figures.f_bavail * figures.f_frsize


def test_a_store_that_is_away_delays_nothing_and_loses_nothing(callers: Callers, make_service: MakeService) -> None:
    from tests.doubles.s3_servers import moto_server

    port = free_port()
    store = f"s3://sandcell-test/prefix?endpoint_url=http://127.0.0.1:{port}&region=us-east-1"
    environment = {"AWS_ACCESS_KEY_ID": "testing", "AWS_SECRET_ACCESS_KEY": "testing"}
    service = make_service(store=store, flush_deadline_seconds=2, extra_environment=environment)
    session = callers.of(service).session()
    session.run("open('f', 'w').write('kept')")
    session.works()
    eventually(lambda: session.show()["sync"]["error"] is not None)
    assert session.show()["sync"]["pending"] is True
    shown = session.stop()
    assert shown["status"] == "TERMINATED"
    assert "wait" in shown["ended"]["detail"] or shown["sync"]["pending"]
    with moto_server(port, bucket="sandcell-test"):
        eventually(lambda: session.rest.http.get(f"/v1/workspaces/{session.workspace_id}/files/f").text == "kept")
        service.stop()
