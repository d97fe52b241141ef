"""What is around the service fails: it is killed, its disk is full, its store is away. Nothing acknowledged is lost."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kernels.notebook import chain
from tests.doubles.faulty_proxy import FaultyProxy
from tests.doubles.s3_servers import ACCESS_KEY, BUCKET
from tests.integration.kernel_gateway.server.eventually import eventually
from tests.integration.kernel_gateway.server.rest import LiveSession, Rest
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


@pytest.mark.sample("kills")
def test_a_service_that_crashes_leaves_its_stacks_in_the_log_and_is_started_again(make_service: MakeService) -> None:
    service = make_service()
    crashed = service.service_pid
    os.kill(crashed, signal.SIGSEGV)
    eventually(lambda: service.find_service_pid() not in {None, crashed})
    for said in (
        "Fatal Python error: Segmentation fault",
        'kernel_gateway/server/serving.py", line',
        "SIGSEGV",
    ):
        eventually(lambda said=said: said in "".join(service.output))  # type: ignore[misc]


@pytest.mark.sample("kills")
def test_a_killed_service_takes_its_sessions_up_again_and_replaces_sandboxes_that_died_meanwhile(
    callers: Callers, make_service: MakeService
) -> None:
    service = make_service()
    session = callers.of(service).session()
    session.run("x = 41; open('f', 'w').write('file')")
    unlucky = session.rest.session()
    unlucky.run("open('f', 'w').write('file'); x = 1")
    process = int((service.data_dir / "sandboxes" / unlucky.id / "bundle" / "pid").read_text())
    running = session.submit("import time\nfor i in range(8): print(i); time.sleep(0.5)\ny = 'finished'")
    queued = session.submit("z = 'ran after'")
    eventually(lambda: session.rest.get(f"{session.path}/executions/{running['id']}")["status"] == "running")
    service.kill()
    os.kill(process, 9)
    service.start()
    replaced = callers.again(service, unlucky)
    replaced.works()
    assert replaced.run("print(open('f').read())")["stdout"] == "file\n"
    assert replaced.show()["generation"] == 2
    again = callers.again(service, session)
    gone_on = again.outcome(running["id"])
    assert (gone_on["status"], gone_on["stdout"]) == ("ok", "".join(f"{i}\n" for i in range(8)))
    assert again.outcome(queued["id"])["status"] == "ok"
    assert again.run("x + 1, y, z")["outputs"][0]["data"]["text/plain"] == "(42, 'finished', 'ran after')"
    assert again.show()["generation"] == 1
    again.stop()
    notebook = again.rest.http.get(f"{again.path}/notebook").json()
    manifest = chain.read_manifest(again.rest.http.get(f"{again.path}/notebook/manifest").content)
    assert chain.verify(notebook, manifest).whole, "a cell that was not written before the kill is written once, after"
    code = [cell["metadata"]["sandcell"]["status"] for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert code == ["ok", "ok", "ok", "ok"]
    kept = service.data_dir / "store" / "workspaces" / "sessions" / session.id
    assert json.loads((kept / "history.ipynb").read_bytes()) == notebook
    assert chain.read_manifest((kept / "history.json").read_bytes()) == manifest
    assert service.stop() == 0


def test_a_service_is_alone_on_its_data_and_stopped_it_ends_its_sessions_and_leaves_nothing(
    callers: Callers, make_service: MakeService
) -> None:
    service = make_service()
    session = callers.of(service).session()
    session.run("open('f', 'w').write('file')")
    with pytest.raises(AssertionError, match="another service runs"):
        make_service(data_dir=service.data_dir)
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


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 900 MB for the service's data."""
    place = tmp_path / "disk"
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=900m", "sandcell-test", str(place)], check=True)
    yield place
    subprocess.run(["umount", str(place)], check=True)


@pytest.mark.sample("kills")
def test_a_full_host_disk_refuses_new_work_and_loses_nothing(
    callers: Callers, make_service: MakeService, small_disk: Path
) -> None:
    service = make_service(data_dir=small_disk / "data", disk_reserve_bytes=200_000_000)
    try:
        session = callers.of(service).session()
        session.run("x = 41; open('f', 'w').write('kept')")
        filler = small_disk / "filler"
        subprocess.run(["fallocate", "-l", str(_free(small_disk) - 100_000_000), str(filler)], check=True)
        for path, body in (("/v1/sessions", {}), (f"{session.path}/executions", {"code": "x + 1"})):
            refused = session.rest.http.post(path, json=body)
            assert refused.status_code == 507, refused.text
            assert "disk" in refused.json()["error"]["message"]
        filler.unlink()
        assert session.run("x + 1")["outputs"][0]["data"]["text/plain"] == "42"
        session.stop()
        assert session.rest.http.get(f"/v1/workspaces/{session.workspace_id}/files/f").text == "kept"
    finally:
        service.stop()


def _free(path: Path) -> int:
    figures = os.statvfs(path)
    return figures.f_bavail * figures.f_frsize


@pytest.fixture
def store(moto_endpoint: str) -> Iterator[FaultyProxy]:
    """An S3 server behind a proxy that can cut it off."""
    proxy = FaultyProxy(moto_endpoint)
    yield proxy
    proxy.close()


@pytest.fixture
def with_store(make_service: MakeService, store: FaultyProxy) -> Callable[[], RunningService]:
    """Starts a service on that store that does not wait long for it."""
    key, secret = ACCESS_KEY
    environment = {"AWS_ACCESS_KEY_ID": key, "AWS_SECRET_ACCESS_KEY": secret}
    url = f"s3://{BUCKET}/{uuid.uuid4().hex}?endpoint_url={store.endpoint}&region=us-east-1"
    return lambda: make_service(
        extra_environment=environment, store=url, flush_deadline_seconds=2, sweep_interval_seconds=0.5
    )


def file_in_store(session: LiveSession, name: str) -> str:
    answer = session.rest.http.get(f"/v1/workspaces/{session.workspace_id}/files/{name}")
    return answer.text if answer.is_success else f"{answer.status_code}"


def test_files_come_and_go_by_s3(callers: Callers, with_store: Callable[[], RunningService]) -> None:
    service = with_store()
    session = callers.of(service).session()
    session.run("open('f', 'w').write('kept')")
    session.stop()
    eventually(lambda: file_in_store(session, "f") == "kept")  # a busy host may need longer than the flush's deadline
    with session.rest.session(workspace_id=session.workspace_id) as later:
        assert later.run("print(open('f').read())")["stdout"] == "kept\n"
    service.stop()


@pytest.mark.sample("kills")
def test_a_store_that_goes_away_delays_no_execution(
    callers: Callers, with_store: Callable[[], RunningService], store: FaultyProxy
) -> None:
    service = with_store()
    session = callers.of(service).session()
    store.fault = "refuse"
    store.drop()
    assert session.run("open('f', 'w').write('kept')")["status"] == "ok"
    eventually(lambda: session.show()["sync"]["error"] is not None)
    assert session.show()["sync"]["pending"] is True
    session.works()
    store.fault = "none"
    eventually(lambda: session.show()["sync"]["pending"] is False)
    assert file_in_store(session, "f") == "kept"
    service.stop()


@pytest.mark.sample("kills")
def test_files_wait_on_the_host_for_a_store_that_is_away_at_the_end(
    callers: Callers, with_store: Callable[[], RunningService], store: FaultyProxy
) -> None:
    service = with_store()
    session = callers.of(service).session()
    store.fault = "refuse"
    store.drop()
    session.run("open('f', 'w').write('kept')")
    shown = session.stop()
    assert shown["status"] == "TERMINATED"
    assert "waits on this host" in shown["ended"]["detail"]
    service.kill()
    store.fault = "none"
    service.start()
    again = callers.again(service, session)
    eventually(lambda: file_in_store(again, "f") == "kept")
    service.stop()


@pytest.mark.sample("kills")
def test_a_spool_that_is_emptied_removes_no_file_from_the_store(
    callers: Callers, with_store: Callable[[], RunningService], store: FaultyProxy
) -> None:
    service = with_store()
    first = callers.of(service).session()
    first.run("open('f', 'w').write('of before')")
    eventually(lambda: not first.show()["sync"]["pending"])
    first.stop()
    session = first.rest.session(workspace_id=first.workspace_id)
    session.works()
    store.fault = "refuse"
    store.drop()
    session.run("open('f', 'w').write('newer'); open('g', 'w').write('newer')")
    assert "waits on this host" in session.stop()["ended"]["detail"]
    service.kill()
    emptied = [each for each in (service.data_dir / "state" / "spool").rglob("*") if each.is_file()]
    assert emptied
    for each in emptied:
        each.unlink()
    store.fault = "none"
    service.start()
    eventually(lambda: "spooled_workspace_damaged" in "".join(service.output))
    again = callers.again(service, session)
    with again.rest.session(workspace_id=first.workspace_id) as later:
        assert later.run("open('f').read()")["outputs"][0]["data"]["text/plain"] == "'of before'"
    assert file_in_store(again, "f") == "of before"
    service.stop()


@pytest.mark.long
def test_a_network_to_the_store_as_slow_as_a_modem(
    callers: Callers, with_store: Callable[[], RunningService], store: FaultyProxy
) -> None:
    """Executions do not wait for it; what is not there when the session ends comes from this host's disk."""
    service = with_store()
    session = callers.of(service).session()
    store.drop()
    store.bytes_per_second = 7_000
    assert session.run("open('f', 'w').write('0123456789' * 4_000)")["status"] == "ok"
    session.works()
    assert "waits on this host" in session.stop()["ended"]["detail"]
    eventually(lambda: file_in_store(session, "f") == "0123456789" * 4_000)
    with session.rest.session(workspace_id=session.workspace_id) as later:
        assert later.run("len(open('f').read())")["outputs"][0]["data"]["text/plain"] == "40000"
    store.bytes_per_second = 0
    service.stop()


@pytest.mark.sample("kills")
def test_a_store_that_is_away_at_the_start(
    callers: Callers, with_store: Callable[[], RunningService], store: FaultyProxy
) -> None:
    store.fault = "refuse"
    service = with_store()
    rest = callers.of(service)
    refused = rest.http.post("/v1/sessions", json={})
    assert refused.status_code == 503, refused.text
    assert refused.json()["error"]["code"] == "store_unavailable"
    assert refused.json()["error"]["retryable"] is True
    store.fault = "none"
    with rest.session() as session:
        session.works()
    service.stop()
