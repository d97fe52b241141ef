"""The launcher's life and the service's: either is killed, and what was acknowledged is there afterwards."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from tests import control_groups, leftovers
from tests.integration.kernel_gateway.server.eventually import eventually
from tests.integration.kernel_gateway.server.rest import LiveSession, Rest
from tests.running_service import RunningService

MakeService = Callable[..., RunningService]


def answers(service: RunningService) -> bool:
    try:
        return httpx.get(f"{service.url}/readyz", timeout=120).is_success
    except httpx.HTTPError:
        return False


def kill_service(service: RunningService) -> None:
    """`kill -9` the service alone, and wait until the launcher has started another that serves."""
    former = service.service_pid
    os.kill(former, signal.SIGKILL)
    eventually(lambda: not Path(f"/proc/{former}").exists())
    eventually(lambda: answers(service))
    assert service.service_pid != former


def kill_one_service_after_another(service: RunningService, times: int) -> None:
    """`kill -9` the service, and what the launcher starts in its place as soon as it is there."""
    for _ in range(times):
        former = service.service_pid
        os.kill(former, signal.SIGKILL)
        eventually(lambda former=former: service.find_service_pid() not in (None, former))  # type: ignore[misc]


def join_group_of(process: int, joining: int) -> None:
    """Put a process where a child of the service would be."""
    lines = [line.split(":", 2) for line in Path(f"/proc/{process}/cgroup").read_text().splitlines()]
    counted = next((group for _, names, group in lines if "pids" in names.split(",")), None)
    group = counted if counted is not None else next(group for _, names, group in lines if not names)
    assert group.endswith("/service")
    files = [path for path in control_groups.find("cgroup.procs") if str(path.parent).endswith(group)]
    files[0].write_text(str(joining))


@contextmanager
def forked_by(service: RunningService) -> Iterator[None]:
    """With a process where a child of the service would be, which has ended when the block has."""
    with subprocess.Popen(["sleep", "300"]) as left:
        try:
            join_group_of(service.service_pid, left.pid)
            yield
            assert left.wait(120) == -signal.SIGKILL
        finally:
            left.kill()


def test_a_service_that_is_killed_is_started_again_and_nothing_acknowledged_is_lost(make_service: MakeService) -> None:
    """And what it has forked ends with it, as it does when the service is stopped."""
    service = make_service()
    port, launcher = service.url, service.pid
    with Rest(service) as rest:
        session = rest.session()
        session.run("x = 41; open('f', 'w').write('file')")
        running = session.submit("import time; time.sleep(3); y = 'finished'; print(y)")
        queued = session.submit("z = 'ran after'")
        eventually(lambda: rest.get(f"{session.path}/executions/{running['id']}")["status"] == "running")
    with forked_by(service):
        kill_service(service)
    assert (service.url, service.pid) == (port, launcher)
    with Rest(service) as rest:
        again = LiveSession(rest, rest.get(session.path))
        gone_on = again.outcome(running["id"])
        assert (gone_on["status"], gone_on["stdout"]) == ("ok", "finished\n")
        assert again.outcome(queued["id"])["status"] == "ok"
        assert again.run("x + 1, y, z, open('f').read()")["outputs"][0]["data"]["text/plain"] == (
            "(42, 'finished', 'ran after', 'file')"
        )
        assert again.show()["generation"] == 1
    with forked_by(service):
        assert service.stop() == 0
    assert list((service.data_dir / "sandboxes").iterdir()) == []


@pytest.mark.sample("kills")
def test_a_killed_launcher_takes_the_service_along_and_a_service_that_keeps_dying_is_left_dead(
    make_service: MakeService,
) -> None:
    """The sandboxes stay, and the next start finds them."""
    service = make_service()
    with Rest(service) as rest:
        session = rest.session()
        session.run("x = 41")
    serving = service.service_pid
    sandbox = int((service.data_dir / "sandboxes" / session.id / "bundle/pid").read_text())
    service.kill()
    eventually(lambda: not Path(f"/proc/{serving}").exists(), 10)
    assert Path(f"/proc/{sandbox}").exists()
    service.start()
    with Rest(service) as rest:
        again = LiveSession(rest, rest.get(session.path))
        assert again.run("x + 1")["outputs"][0]["data"]["text/plain"] == "42"
    kill_one_service_after_another(service, 5)
    os.kill(service.service_pid, signal.SIGKILL)
    status = service.wait()
    assert status == -signal.SIGKILL, "".join(service.output)
    assert "ended 6 times" in "".join(service.output)
    service.start()
    with Rest(service) as rest:
        again = LiveSession(rest, rest.get(session.path))
        assert again.run("x + 1")["outputs"][0]["data"]["text/plain"] == "42"
    assert service.stop() == 0


@pytest.mark.sample("kills")
def test_what_the_user_closed_to_himself_reaches_the_store_all_the_same(service: RunningService) -> None:
    with Rest(service) as rest:
        session = rest.session()
        session.run(
            "import os; os.makedirs('d/e'); open('d/e/f', 'w').write('deep'); open('g', 'w').write('closed')\n"
            "os.symlink('f', 'd/e/link'); os.chmod('d/e/f', 0); os.chmod('d/e', 0); os.chmod('d', 0); os.chmod('g', 0)"
        )
        rest.http.delete(session.path)
        files = f"/v1/workspaces/{session.workspace_id}/files"
        assert rest.http.get(f"{files}/d/e/f").text == "deep"
        assert rest.http.get(f"{files}/g").text == "closed"
        with rest.session(workspace_id=session.workspace_id) as again:
            look = "import os; print(oct(os.stat('d').st_mode), oct(os.stat('g').st_mode), os.stat('g').st_uid)"
            assert again.run(look)["stdout"] == "0o40000 0o100000 1000\n"
            opened = "os.chmod('d', 0o700); os.chmod('d/e', 0o700); print(os.readlink('d/e/link'))"
            assert again.run(opened)["stdout"] == "f\n"


def refusal(data_dir: Path, **settings: object) -> tuple[int, str]:
    """How a start that is refused ends, and what it says."""
    done = subprocess.run(
        [sys.executable, "-m", "kernel_gateway", "serve"],
        env={
            **{name: value for name, value in os.environ.items() if not name.startswith("SANDCELL_")},
            "XDG_CONFIG_HOME": str(data_dir / "config"),
            "SANDCELL_DATA_DIR": str(data_dir),
            "SANDCELL_RUN_DIR": str(leftovers.RUN_DIR),
            "SANDCELL_PORT": "0",
            **{f"SANDCELL_{name.upper()}": str(value) for name, value in settings.items()},
        },
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    return done.returncode, done.stderr


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    return tmp_path / "data"


@pytest.mark.sample("kills")
def test_a_start_that_is_refused_says_why_wherever_it_is_found_out(
    data_dir: Path, tmp_path: Path, environments_dir: Path
) -> None:
    assert refusal(data_dir, environments_dir=tmp_path) == (
        7,
        f"sandcell: no environment is built in {tmp_path}; run: sandcell environments build python\n",
    )
    built = {"environments_dir": environments_dir}
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "something").write_text("else")
    status, said = refusal(data_dir, store=f"file://{mine}", **built)
    assert (status, "chown -R 1199999999" in said) == (7, True)
    (data_dir / "state" / "sandcell.db").write_bytes(b"no database" * 1000)
    status, said = refusal(data_dir, **built)
    assert status == 7, said
    assert said.startswith("sandcell: the database cannot be opened"), said
    assert said.count("sandcell:") == 1, "it is not tried again"


@pytest.mark.sample("kills")
def test_what_an_earlier_version_left_beside_is_moved_to_the_services_own_directory(make_service: MakeService) -> None:
    service = make_service()
    with Rest(service) as rest:
        session = rest.session()
        session.run("open('f', 'w').write('kept')")
    assert service.stop() == 0
    state, data = service.data_dir / "state", service.data_dir
    (state / "sandcell.db").rename(data / "sandcell.db")
    for left in state.iterdir():
        left.rmdir() if left.is_dir() else left.unlink()
    (data / "spool").mkdir()
    for each in (data / "store", *(data / "store").rglob("*"), data / "sandcell.db"):
        os.chown(each, 0, 0)
    state.rmdir()
    data.chmod(0o700)
    service.start()
    with Rest(service) as rest:
        assert rest.get(session.path)["ended"]["reason"] == "shutdown"
        assert rest.http.get(f"/v1/workspaces/{session.workspace_id}/files/f").text == "kept"
        rest.session().run("1")
    assert service.stop() == 0
    assert {each.name for each in data.iterdir()} >= {"state", "store", "sandboxes"}
    assert not (data / "sandcell.db").exists()
    assert not (data / "spool").exists()
