"""Variables of a sandbox that is lost as a whole: the next one has them, or the session says why not."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import sqlite3
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests import leftovers
from tests.integration.kernel_gateway.server.eventually import eventually
from tests.integration.kernel_gateway.server.rest import LiveSession, Rest
from tests.lost_hosts import reboot
from tests.running_service import RunningService

MakeService = Callable[..., RunningService]
FILL = """
import pandas, sqlite3
frame = pandas.DataFrame({"a": range(1_000), "b": ["x", None] * 500})
class Model:
    def fit(self, frame): self.mean = float(frame["a"].mean()); return self
model, connection = Model().fit(frame), sqlite3.connect(":memory:")
open("f", "w").write("kept")
"""
CHECK = "(frame.shape, model.mean, type(model) is Model, open('f').read())"
CHECKED = "((1000, 2), 499.5, True, 'kept')"
KEPT = "home/.cache/sandcell/variables"
DEFAULT = {"keep_variables": None, "sweep_interval_seconds": 1}
"""As the service is without the settings of most tests."""


@pytest.fixture(scope="module")
def service(make_service: MakeService) -> RunningService:
    """One for all tests that neither end it nor change its settings."""
    return make_service(**DEFAULT)


def sandbox_of(service: RunningService) -> Path:
    (place,) = (service.data_dir / "sandboxes").iterdir()
    return place


def carried(service: RunningService) -> list[Path]:
    return list((service.data_dir / "state" / "carried").glob("*"))


def fill(service: RunningService, rest: Rest, code: str = FILL, **body: Any) -> LiveSession:
    """A session whose variables have been written down."""
    session = rest.session(**body)
    assert session.run(code)["status"] == "ok"
    wait_kept(service, session)
    return session


def wait_kept(service: RunningService, session: LiveSession, executions: int = 1) -> None:
    """They are on the disk, and the kernel has said so: what it answers next comes after that."""
    stamp = sandbox_of(service) / "storage" / KEPT / "stamp.json"
    eventually(lambda: stamp.exists() and json.loads(stamp.read_text())["executions"] == executions)
    session.rest.get(f"{session.path}/variables")


def stay_busy(session: LiveSession, code: str) -> Any:
    """Nothing is kept after this code: more of it runs. Its execution."""
    running = session.submit(f"{code}\nimport time\nopen('done', 'w').close()\ntime.sleep(600)")
    eventually(lambda: session.rest.http.get(f"{session.path}/files/done").is_success)
    return running


def lose_sandbox(service: RunningService, session: LiveSession) -> None:
    """Its first process is killed; what is left of it is removed by itself."""
    place = sandbox_of(service)
    os.kill(int((place / "bundle" / "pid").read_text()), signal.SIGKILL)
    eventually(lambda: not place.exists())


def require_all_back(session: LiveSession, generation: int = 2, lost: Sequence[str] = ("connection",)) -> None:
    outcome = session.run(CHECK)
    assert outcome["status"] == "ok", outcome
    assert outcome["outputs"][0]["data"]["text/plain"] == CHECKED
    restored = session.show()["restored"]
    assert (restored["generation"], restored["later"], restored["why"]) == (generation, 0, None)
    assert {each["name"]: each["outcome"] for each in restored["variables"]} == {
        **dict.fromkeys(lost, "lost"),
        **dict.fromkeys(("frame", "model", "Model", "pandas", "sqlite3"), "restored"),
    }
    assert notes(session, "**Variables restored:** 5, as they were at")


def notes(session: LiveSession, text: str) -> bool:
    """The note is written beside the answer."""
    eventually(lambda: text in session.rest.http.get(f"{session.path}/notebook").text)
    return True


@pytest.mark.sample("kills")
@pytest.mark.parametrize("runtime", ["runc", "runsc"])
def test_a_sandbox_that_is_killed_leaves_its_variables_to_the_next(make_service: MakeService, runtime: str) -> None:
    service = make_service(runtime=runtime, **DEFAULT)
    with Rest(service) as rest, fill(service, rest) as session:
        lose_sandbox(service, session)
        assert len(carried(service)) == 1, "no sandbox has them, until the session's next use"
        require_all_back(session)
        assert carried(service) == []
        wait_kept(service, session, executions=2)
        lose_sandbox(service, session)
        require_all_back(session, generation=3, lost=())


def test_code_whose_sandbox_is_lost_says_what_the_next_is_given(service: RunningService) -> None:
    with Rest(service) as rest, fill(service, rest) as session:
        running = stay_busy(session, "print(1, flush=True)")
        lose_sandbox(service, session)
        told = session.outcome(running["id"])["death"]["detail"]
        assert re.fullmatch(
            r"the sandbox ended: its first process is gone; every global and /tmp are gone, but for the 5 variables"
            r" that were kept at \S+, which the next sandbox is given if they can be read; this code had begun",
            told,
        ), told
        assert session.run(CHECK)["outputs"][0]["data"]["text/plain"] == CHECKED


@pytest.mark.sample("kills")
@pytest.mark.parametrize("runtime", ["runc", "runsc"])
def test_after_the_host_went_down_variables_are_there(make_service: MakeService, runtime: str) -> None:
    """The service is killed once more before anybody uses the session: the disk is gone by then."""
    service = make_service(runtime=runtime, **DEFAULT)
    with Rest(service) as rest:
        session = fill(service, rest)
    service.kill()
    reboot(service.data_dir, leftovers.RUN_DIR)
    service.start()
    eventually(lambda: not list((service.data_dir / "sandboxes").iterdir()))
    service.kill()
    service.start()
    with Rest(service) as rest, LiveSession(rest, rest.get(session.path)) as again:
        require_all_back(again)


@pytest.mark.sample("kills")
@pytest.mark.parametrize("runtime", ["runc", "runsc"])
def test_a_disk_that_cannot_be_read_costs_the_variables_and_no_start(make_service: MakeService, runtime: str) -> None:
    service = make_service(runtime=runtime, **DEFAULT)
    with Rest(service) as rest:
        session = fill(service, rest)
    service.kill()
    reboot(service.data_dir, leftovers.RUN_DIR)
    with (sandbox_of(service) / "storage.img").open("r+b") as image:
        image.write(bytes(1 << 20))
    service.start()
    with Rest(service) as rest, LiveSession(rest, rest.get(session.path)) as again:
        assert again.run("frame")["error"]["name"] == "NameError"
        restored = again.show()["restored"]
        assert restored["variables"] == []
        assert restored["why"].startswith(
            "the sandbox was lost, and what was kept of its variables cannot be brought from its disk: the sandbox's"
            " disk cannot be mounted"
        )
        assert notes(again, "**Variables lost:** the sandbox was lost")


def test_a_value_that_the_disk_has_lost_is_lost_alone(service: RunningService) -> None:
    with Rest(service) as rest, fill(service, rest, "one, many = [1], bytes(300_000)") as session:
        kept = sandbox_of(service) / "storage" / KEPT
        (largest,) = (each for each in kept.iterdir() if each.stat().st_size > 200_000)
        largest.unlink()
        lose_sandbox(service, session)
        assert session.run("one")["outputs"][0]["data"]["text/plain"] == "[1]"
        outcomes = {each["name"]: each["outcome"] for each in session.show()["restored"]["variables"]}
        assert outcomes == {"one": "restored", "many": "lost"}


HANG = """
import os, time
value = [1]
def write(*arguments, pwrite=os.pwrite): pwrite(*arguments); time.sleep(600)
os.pwrite = write
"""
"""The kernel writes its stamp, and never says so."""
HANG_IN_A_VALUE = """
import time
class Slow:
    def __reduce__(self): open("begun", "w").close(); time.sleep(600)
slow = Slow()
"""


def test_what_was_kept_the_first_time_is_there_before_its_kernel_has_said_so(service: RunningService) -> None:
    with Rest(service) as rest, rest.session() as session:
        assert session.run(HANG)["status"] == "ok"
        stamp = sandbox_of(service) / "storage" / KEPT / "stamp.json"
        eventually(stamp.exists)
        lose_sandbox(service, session)
        assert session.run("value")["outputs"][0]["data"]["text/plain"] == "[1]"
        restored = session.show()["restored"]
        assert (restored["generation"], restored["later"], restored["why"]) == (2, 0, None)


def test_a_sandbox_that_is_lost_before_anything_is_kept_says_so(service: RunningService) -> None:
    with Rest(service) as rest, rest.session() as session:
        assert session.run(HANG_IN_A_VALUE)["status"] == "ok"
        eventually(lambda: rest.http.get(f"{session.path}/files/begun").is_success)
        lose_sandbox(service, session)
        assert session.run("slow")["error"]["name"] == "NameError"
        restored = session.show()["restored"]
        assert restored["why"] == "the sandbox was lost before anything was kept of its kernel's variables"
        assert notes(session, "**Variables lost:** the sandbox was lost before anything was kept")


LINKED = """
import os, pathlib, shutil
kept, secret = pathlib.Path("~/.cache/sandcell/variables").expanduser(), pathlib.Path("/tmp/secret")
value = [1]
secret.write_text("of another place")
"""
PLANT = """
(kept / "link").symlink_to("/etc/shadow"); (kept / "beside").symlink_to(secret); (kept / "directory").mkdir()
os.mkfifo(kept / "fifo"); (kept / ".hidden").write_text("x")
"""
"""What may lie among the files of variables; it comes to no other place."""
REPLACE = "shutil.rmtree(kept); kept.symlink_to('/etc')"
SWELL = "with (kept / 'large').open('wb') as file: file.truncate(300 << 20)"


def test_nothing_but_files_comes_from_a_lost_disk(service: RunningService) -> None:
    with Rest(service) as rest, fill(service, rest, LINKED) as session:
        stay_busy(session, PLANT)
        lose_sandbox(service, session)
        (stream,) = carried(service)
        content = stream.read_bytes()
        assert b"index.json" in content
        for each in (b"link", b"beside", b"of another place", b"directory", b"fifo", b".hidden", b"root:"):
            assert each not in content, each
        assert session.run("value")["outputs"][0]["data"]["text/plain"] == "[1]"


@pytest.mark.parametrize(
    ("code", "why"),
    [
        (REPLACE, "cannot be brought from its disk: Too many levels of symbolic links"),
        (SWELL, "cannot be brought from its disk: there is more than "),
    ],
)
def test_what_no_kernel_has_written_is_not_taken(service: RunningService, code: str, why: str) -> None:
    with Rest(service) as rest, fill(service, rest, LINKED) as session:
        stay_busy(session, code)
        lose_sandbox(service, session)
        assert carried(service) == []
        assert session.run("1")["status"] == "ok"
        assert why in session.show()["restored"]["why"]


def test_what_is_carried_counts_with_hibernated_sessions(make_service: MakeService) -> None:
    service = make_service(hibernated_mb=1, **DEFAULT)
    with Rest(service) as rest, fill(service, rest, "many = bytes(600_000)") as first:
        lose_sandbox(service, first)
        with fill(service, rest, "many = bytes(700_000)") as second:
            lose_sandbox(service, second)
            assert len(carried(service)) == 1, "there is no room for both"
            assert second.run("1")["status"] == "ok"
            why = second.show()["restored"]["why"]
            assert "bytes, which is more than 1,048,576 (hibernated_mb): use or stop such a session" in why
            assert second.run("many = bytes(700_000)")["status"] == "ok"
            refused = rest.http.post(f"{second.path}/hibernate")
            assert refused.json()["error"]["code"] == "quota_reached"
            assert ", and what was kept of lost sandboxes " in refused.json()["error"]["message"]
            assert first.run("len(many)")["outputs"][0]["data"]["text/plain"] == "600000"
            assert rest.http.post(f"{second.path}/hibernate").is_success, "the first has its own"


def test_what_cannot_be_counted_is_kept(service: RunningService) -> None:
    with Rest(service) as rest, fill(service, rest) as session:
        place, database = sandbox_of(service), service.data_dir / "state" / "sandcell.db"
        with contextlib.closing(sqlite3.connect(database, isolation_level=None)) as other:
            other.execute("BEGIN EXCLUSIVE")
            os.kill(int((place / "bundle" / "pid").read_text()), signal.SIGKILL)
            eventually(lambda: [each for each in carried(service) if each.suffix[1:].isdecimal()])
        require_all_back(session)


def test_a_restart_on_request_and_the_end_leave_nothing(service: RunningService) -> None:
    with Rest(service) as rest:
        with fill(service, rest) as session:
            rest.post(f"{session.path}/restart")
            lose_sandbox(service, session)
            assert carried(service) == []
            assert session.run("frame")["error"]["name"] == "NameError"
            assert session.show()["restored"] is None
        with fill(service, rest) as session:
            lose_sandbox(service, session)
            assert len(carried(service)) == 1
        assert carried(service) == []
