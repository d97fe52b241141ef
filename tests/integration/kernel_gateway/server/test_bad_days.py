"""Days on which much goes wrong around the whole service: what callers see meanwhile, and that it mends by itself."""

from __future__ import annotations

import sqlite3
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import datetime
from pathlib import Path

import pytest

from tests import leftovers
from tests.integration.kernel_gateway.server.eventually import eventually
from tests.integration.kernel_gateway.server.rest import LiveSession, Rest
from tests.lost_hosts import reboot
from tests.running_service import RunningService

MakeService = Callable[..., RunningService]
RESERVED_BYTES = 64 * 1024 * 1024


@pytest.fixture(scope="module")
def small_disk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A disk of its own for the service's data."""
    place = tmp_path_factory.mktemp("disk")
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=900m", "sandcell-test", str(place)], check=True)
    yield place
    subprocess.run(["umount", str(place)], check=True)


@pytest.fixture(scope="module")
def unlucky(small_disk: Path, make_service: MakeService) -> Iterator[RunningService]:
    """The service that has all of these days, one after another."""
    service = make_service(data_dir=small_disk / "data", disk_reserve_bytes=RESERVED_BYTES, sweep_interval_seconds=1)
    yield service
    if service.running:
        service.stop()


@pytest.fixture
def rest(unlucky: RunningService) -> Iterator[Rest]:
    with Rest(unlucky) as rest:
        yield rest


def answer_of(session: LiveSession, code: str) -> str:
    outcome = session.run(code)
    assert outcome["status"] == "ok", outcome
    return str(outcome["outputs"][0]["data"]["text/plain"])


@pytest.mark.sample("kills")
@pytest.mark.parametrize("seconds", [7, pytest.param(60, marks=pytest.mark.long)])
def test_another_process_locks_the_database(unlucky: RunningService, rest: Rest, seconds: int) -> None:
    """Longer than a statement waits for the lock. What runs ends with its output; what is asked is refused."""
    with rest.session() as session:
        session.run("n = 0")
        running = session.submit(f"import time; n += 1; time.sleep({seconds / 2}); print('came to its end')")
        eventually(lambda: rest.get(f"{session.path}/executions/{running['id']}")["status"] == "running")
        with closing(sqlite3.connect(unlucky.data_dir / "state" / "sandcell.db", isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            refused = rest.http.post(f"{session.path}/executions", json={"code": "n += 1"})
            assert (refused.status_code, refused.json()["error"]["code"]) == (503, "database_unavailable")
            assert refused.json()["error"]["retryable"] is True
            for _ in range(seconds // 7 - 1):
                assert not rest.http.post(f"{session.path}/executions", json={"code": "n += 1"}).is_success
            other.execute("ROLLBACK")
        outcome = session.outcome(running["id"])
        assert (outcome["status"], outcome["stdout"]) == ("ok", "came to its end\n")
        assert answer_of(session, "n") == "1", "what was refused never ran"


@pytest.mark.sample("kills")
def test_the_disk_of_database_and_spool_is_full_to_the_last_byte(rest: Rest, small_disk: Path) -> None:
    """Below what the service keeps free for itself: something else on the host has taken it."""
    with rest.session() as session:
        session.run("n = 0")
        running = session.submit(
            "import time; n += 1; time.sleep(2); open('f', 'w').write('kept'); print('at its end')"
        )
        eventually(lambda: rest.get(f"{session.path}/executions/{running['id']}")["status"] == "running")
        filler = small_disk / "filler"
        subprocess.run(["dd", "if=/dev/zero", f"of={filler}", "bs=64k", "status=none"], check=False, timeout=120)
        refused = rest.http.post(f"{session.path}/executions", json={"code": "n += 1"})
        assert refused.status_code == 507, refused.text
        time.sleep(3)  # the cell ends meanwhile, and its outcome cannot be stored
        assert rest.http.get("/healthz").is_success
        assert session.show()["status"] == "READY"
        filler.unlink()
        outcome = session.outcome(running["id"])
        assert (outcome["status"], outcome["stdout"]) == ("ok", "at its end\n")
        assert answer_of(session, "open('f', 'w').write('kept'); n") == "1"
        eventually(lambda: not session.show()["sync"]["pending"])
        assert rest.http.get(f"/v1/workspaces/{session.workspace_id}/files/f").text == "kept"


@pytest.mark.sample("kills")
def test_the_disk_is_full_in_the_middle_of_a_snapshot(unlucky: RunningService, rest: Rest) -> None:
    """There was room when it began. What is refused is as it was, and works once there is room."""
    with rest.session() as session:
        session.run("import os; a = os.urandom(8_000_000); x = 41; open('f', 'w').write('kept')")
        place = unlucky.data_dir / "state" / "snapshots"
        place.mkdir(exist_ok=True)
        as_seen = ["nsenter", "--mount", "--target", str(unlucky.service_pid)]  # the service has mounts of its own
        small = ["mount", "-t", "tmpfs", "-o", "size=1m,mode=1777", "sandcell-test", str(place)]
        subprocess.run([*as_seen, *small], check=True)
        try:
            for what in ("checkpoints", "hibernate"):
                refused = rest.http.post(f"{session.path}/{what}")
                assert (refused.status_code, refused.json()["error"]["code"]) == (507, "no_space"), refused.text
            assert session.show()["status"] == "READY"
            assert answer_of(session, "len(a), x") == "(8000000, 41)"
            assert rest.get(f"{session.path}/checkpoints")["items"] == []
        finally:
            subprocess.run([*as_seen, "umount", str(place)], check=True)
            place.rmdir()  # the service makes it its own
        assert rest.http.post(f"{session.path}/checkpoints").status_code == 201
        assert rest.post(f"{session.path}/hibernate")["status"] == "HIBERNATED"
        assert answer_of(session, "len(a), x, open('f').read()") == "(8000000, 41, 'kept')"


@pytest.mark.sample("kills")
def test_the_host_goes_down(unlucky: RunningService, rest: Rest) -> None:
    """Sandboxes, mounts, control groups and the run directory are gone; the disk stays."""
    session = rest.session()
    assert session.run("open('f', 'w').write('kept'); x = 1")["status"] == "ok"
    running = session.submit("import time; print('begun', flush=True); time.sleep(600)")
    eventually(lambda: rest.get(f"{session.path}/executions/{running['id']}")["status"] == "running")
    queued = session.submit("open('f').read()")
    unlucky.kill()
    assert session.id in reboot(unlucky.data_dir, leftovers.RUN_DIR)
    unlucky.start()
    with Rest(unlucky) as later:
        again = LiveSession(later, later.get(session.path))
        lost = again.outcome(running["id"])
        assert lost["status"] == "died", "its sandbox is gone, and it is never run again"
        assert again.outcome(queued["id"])["outputs"][0]["data"]["text/plain"] == "'kept'"
        assert again.show()["generation"] == 2
        assert again.run("x")["error"]["name"] == "NameError"
        again.stop()


SET_CLOCK = """
import pathlib, time
ahead, real = pathlib.Path(__file__).with_name("ahead"), time.time
time.time = lambda: real() + int(ahead.read_text())
"""
"""Python imports it at its start: the host's clock itself is everybody's."""
WAIT = "import pathlib, time\nwhile not pathlib.Path('go').exists():\n    time.sleep(0.05)\nprint('came to its end')"


@pytest.mark.sample("kills")
def test_the_clock_of_the_host_is_set(make_service: MakeService, tmp_path: Path) -> None:
    """An hour forward, then a day back: no session ends of it and no code, and the next service goes on with it."""
    clock = tmp_path / "clock"
    clock.mkdir(mode=0o755)  # the service's user reads it
    (clock / "sitecustomize.py").write_text(SET_CLOCK)
    ahead = clock / "ahead"
    ahead.write_text("0")
    service = make_service(extra_environment={"PYTHONPATH": str(clock)}, sweep_interval_seconds=1)
    with Rest(service) as rest:
        session = rest.session(idle_timeout_seconds=600, timeout_seconds=1_000)
        session.run("x = 41")
        running = session.submit(WAIT, timeout_seconds=300)
        for seconds in (3_600, -86_400):
            before = expiry_of(session)
            ahead.write_text(str(seconds))
            eventually(lambda: abs(expiry_of(session) - before) > 1_000)  # noqa: B023 - it is called before the next
            assert session.show()["status"] == "READY"
            assert 0 < expiry_of(session) - (time.time() + seconds) <= 1_000
            assert rest.get(f"{session.path}/executions/{running['id']}")["status"] == "running"
        rest.http.put(f"{session.path}/files/go", content=b"").raise_for_status()
        outcome = session.outcome(running["id"])
        assert (outcome["status"], outcome["stdout"]) == ("ok", "came to its end\n")
    service.kill()
    service.start()
    with Rest(service) as rest:
        again = LiveSession(rest, rest.get(session.path))
        assert answer_of(again, "x") == "41"
        again.stop()
    service.stop()


def expiry_of(session: LiveSession) -> float:
    return datetime.fromisoformat(session.show()["expires_at"]).timestamp()
