"""Sessions of an earlier release after an upgrade: its database is migrated, its guests spoken to, code goes on."""

from __future__ import annotations

import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import REPOSITORY, UNHURRIED
from tests.integration.kernel_gateway.server.eventually import eventually
from tests.integration.kernel_gateway.server.rest import LiveSession, Rest
from tests.integration.kernel_gateway.server.test_running_executions import again, begun, follow
from tests.running_service import RunningService

MakeService = Callable[..., RunningService]
StartEarlier = Callable[..., RunningService]
PACKAGES = ("environments", "kernel_gateway", "kernels", "workspace_sync")
MIGRATIONS = "kernel_gateway/storage/migrations/versions"
FIRST_THAT_KEEPS = "fc5e4d08896f5f7281e2655d66603412fb2ee5ca"
"""Schema 0017, one gateway alone; its guests keep what kernels say."""
LAST_THAT_DOES_NOT = "c414be3009e2185eb48d590560c5744d7274e08c"
"""Schema 0011."""
COUNT = """
import pathlib, time
for i in range(10):
    print(i, flush=True)
while not pathlib.Path("go").exists():
    time.sleep(0.05)
for i in range(10, 20):
    print(i, flush=True)
"""
SAVE = "import pathlib; x = 41; pathlib.Path('f').write_text('kept')"


def git(*arguments: str) -> bytes:
    """Skips the test where this is no repository, or its history is cut short."""
    command = ["git", "-C", str(REPOSITORY), *arguments]
    done = subprocess.run(command, capture_output=True, check=False, timeout=120)
    if done.returncode:
        pytest.skip(f"the history of this checkout has no such release: {done.stderr.decode().strip()}")
    return done.stdout


def find_last_of_former_schema() -> str:
    """The commit before the newest migration, with whatever guest it had."""
    newest = git("log", "-1", "--format=%H", "--diff-filter=A", "--", MIGRATIONS).decode().strip()
    return git("rev-parse", f"{newest}^").decode().strip()


@pytest.fixture
def start_earlier(tmp_path: Path, environments_dir: Path) -> Iterator[StartEarlier]:
    """Starts the service of an earlier commit, on the interpreter and the libraries of this one."""
    with ExitStack() as stack:

        def start(commit: str, **settings: object) -> RunningService:
            code = tmp_path / commit
            with tarfile.open(fileobj=BytesIO(git("archive", commit, "client", *PACKAGES))) as files:
                files.extractall(code, filter="data")
            every = {"environments_dir": environments_dir, **UNHURRIED, **settings}
            elsewhere = {"PYTHONPATH": f"{code}:{code / 'client'}"}
            data_dir = Path(tempfile.mkdtemp(prefix="scdata", dir="/tmp"))
            stack.callback(shutil.rmtree, data_dir, ignore_errors=True)
            # Started there, or this directory's code would come first.
            service = RunningService(data_dir, every, elsewhere, place=["env", f"--chdir={code}"])
            stack.callback(service.stop)
            service.start()
            return service

        yield start


@pytest.mark.sample("kills")
@pytest.mark.parametrize("find_release", [find_last_of_former_schema, lambda: FIRST_THAT_KEEPS], ids=["former", "old"])
def test_sessions_of_an_earlier_release_go_on_after_an_upgrade(
    start_earlier: StartEarlier, make_service: MakeService, find_release: Callable[[], str]
) -> None:
    earlier = start_earlier(find_release(), keep_variables=None, keep_sessions_on_shutdown=True, drain_seconds=0)
    with Rest(earlier) as rest:
        live, asleep, counted = rest.session(), rest.session(), rest.session()
        live.run(SAVE)
        assert live.run("globalThis.y = 7", language="javascript")["status"] == "ok"
        task = rest.post(
            f"{live.path}/commands", command="until [ -e go ]; do sleep 0.1; done; echo done", background=True
        )
        asleep.run(SAVE)
        assert rest.post(f"{asleep.path}/hibernate")["status"] == "HIBERNATED"
        running = counted.submit(COUNT)
        seen = list(follow(counted, running, 0, most=5))
        queued = counted.submit("i")
        before = live.show()
    assert earlier.stop() == 0
    service = make_service(earlier.data_dir)
    with Rest(service) as rest:
        live, asleep, counted = (again(rest, each) for each in (live, asleep, counted))
        assert_same(live.show(), before)
        rest.http.put(f"{counted.path}/files/go", content=b"").raise_for_status()
        seen += list(follow(counted, running, seen[-1][0]))
        assert [number for number, _, _ in seen] == list(range(1, len(seen) + 1))
        texts = "".join(data["text"] for _, kind, data in seen if kind == "stream")
        outcome = counted.outcome(running["id"])
        assert (outcome["status"], outcome["stdout"]) == ("ok", texts)
        assert texts == "".join(f"{i}\n" for i in range(20))
        assert value_of(counted.outcome(queued["id"])) == "19", "what waited ran after it"
        assert value_of(asleep.run("x, pathlib.Path('f').read_text()")) == "(41, 'kept')"
        assert live.run("console.log(globalThis.y)", language="javascript")["stdout"] == "7\n"
        require_whole(rest, live, generation=1)
        rest.http.put(f"{live.path}/files/go", content=b"").raise_for_status()
        eventually(lambda: rest.get(f"{live.path}/tasks/{task['id']}")["status"] != "running")
        assert rest.get(f"{live.path}/tasks/{task['id']}")["stdout"] == "done\n"
        for each in (live, asleep, counted):
            each.stop()
    assert service.stop() == 0
    with pytest.raises(AssertionError, match="start the newer version of Sandcell"):
        earlier.start()


@pytest.mark.sample("kills")
def test_what_runs_in_a_sandbox_of_a_release_that_keeps_nothing_ends_and_its_globals_stay(
    start_earlier: StartEarlier, make_service: MakeService
) -> None:
    earlier = start_earlier(LAST_THAT_DOES_NOT, keep_variables=None, keep_sessions_on_shutdown=True, drain_seconds=0)
    with Rest(earlier) as rest:
        live, counted = rest.session(), rest.session()
        live.run(SAVE)
        running = counted.submit(COUNT)
        begun(counted, running)
    earlier.kill()
    service = make_service(earlier.data_dir)
    with Rest(service) as rest:
        live, counted = again(rest, live), again(rest, counted)
        outcome = counted.outcome(running["id"])
        assert outcome["status"] == "interrupted"
        assert "of an older release" in outcome["why"]
        after = counted.submit("i")
        rest.http.put(f"{counted.path}/files/go", content=b"").raise_for_status()
        assert value_of(counted.outcome(after["id"])) == "19", "its code ran on, and what came next waited for it"
        require_whole(rest, live, generation=1)
        for each in (live, counted):
            each.stop()
    assert service.stop() == 0


def require_whole(rest: Rest, session: LiveSession, *, generation: int) -> None:
    """It has its globals and files; interrupts, deadlines, commands and restarts are as in a new one."""
    assert value_of(session.run("x, pathlib.Path('f').read_text()")) == "(41, 'kept')"
    stuck = session.submit("import time\nprint('begun', flush=True)\ntime.sleep(1000)")
    begun(session, stuck)
    rest.post(f"{session.path}/executions/{stuck['id']}/interrupt")
    assert session.outcome(stuck["id"])["status"] == "interrupted"
    assert session.run("import time; time.sleep(1000)", timeout_seconds=1)["status"] == "timeout"
    assert rest.post(f"{session.path}/commands", command="cat f")["stdout"] == "kept"
    assert value_of(session.run("x")) == "41"
    assert session.show()["generation"] == generation
    rest.post(f"{session.path}/restart")
    assert session.run("x")["error"]["name"] == "NameError"
    assert value_of(session.run("open('f').read()")) == "'kept'"
    assert session.show()["generation"] == generation + 1


def assert_same(shown: dict[str, Any], before: dict[str, Any]) -> None:
    """What a caller knew of a session holds; of its times only those that do not go on."""
    for name in ("id", "name", "status", "environment", "workspace_id", "generation", "created_at", "labels"):
        assert shown[name] == before[name], name


def value_of(outcome: Any) -> str:
    assert outcome["status"] == "ok", outcome
    return str(outcome["outputs"][-1]["data"]["text/plain"])
