"""One guest that has fallen to its user lies to a whole service: its session pays for it, and nothing else does."""

from __future__ import annotations

import json
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any

import pytest

from tests.doubles import lying_guest
from tests.integration.kernel_gateway.server.eventually import eventually
from tests.integration.kernel_gateway.server.rest import LiveSession, Rest
from tests.running_service import RunningService

MakeService = Callable[..., RunningService]
MOST_MEMORY_BYTES = 400 << 20
"""What the service may grow by: a kernel's message may have 112 MB, and is held more than once while it is read."""
MOST_DISK_BYTES = 150 << 20
"""What it may write: the record of a few executions, in the database and beside it."""
ENDS = {"ok", "error", "timeout", "interrupted", "died", "rejected"}
RECORDED = ("id", "status", "code", "generation", "execution_count", "stdout", "stderr", "outputs", "error", "late")
SLOW = {
    "an_answer_that_stops_in_the_middle": "calls of the guest wait as long as they may, for a listing 45 s",
    "a_frame_that_stops_in_the_middle": "the next kernel is waited for as long as a start may take",
}
TOLD = {
    "files_that_cannot_be": "GET /files?recursive=true: the guest listed what no file can be called: '../../etc",
    "a_million_files": "GET /files?recursive=true: the guest's answer is larger than any answer of a guest can be",
    "answers_without_an_end": "POST /commands: the guest's answer is larger than any answer of a guest can be",
    "an_answer_that_stops_in_the_middle": "GET /files?recursive=true: waited 45 s for the guest's answer",
    "connections_that_are_closed_again_and_again": "POST /commands: the guest broke off: ",
}
"""What the owner of its session hears of some of them; others are passed over, or cost it its kernel."""
ENDED = {"a_frame_that_stops_in_the_middle": "its guest stopped in the middle of a message "}
"""What is said of the code that was running."""
ASKS = (
    ("GET", "", None),
    ("GET", "/files?recursive=true", None),
    ("GET", "/variables", None),
    ("GET", "/notebook", None),
    ("GET", "/executions", None),
    ("POST", "/commands", {"command": "echo said", "timeout_seconds": 2}),
    ("POST", "/executions", {"code": "print(41 + 1)", "timeout_seconds": 3}),
)
TELL = """
import os, time
with open("/tmp/part", "w") as file:
    file.write("{lie}")
os.rename("/tmp/part", "/tmp/lie")
while not os.path.exists("/tmp/told"):
    time.sleep(0.05)
"""


@pytest.fixture(scope="module")
def beset(make_service: MakeService) -> Iterator[RunningService]:
    """A service whose sandboxes have such guests."""
    data_directory = Path(tempfile.mkdtemp(prefix="scdata", dir="/tmp"))
    lying_guest.put_in_place(data_directory)
    service = make_service(data_directory, keep_variables="on_idle", extra_environment={"MALLOC_ARENA_MAX": "2"})
    yield service
    assert service.stop() == 0
    shutil.rmtree(data_directory)


@pytest.fixture(scope="module")
def rest(beset: RunningService) -> Iterator[Rest]:
    with Rest(beset) as rest:
        yield rest


@pytest.fixture(scope="module")
def neighbour(rest: Rest) -> Iterator[LiveSession]:
    with rest.session() as session:
        session.run("n = 0; open('kept', 'w').write('mine')")
        yield session


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    "lie", [pytest.param(each, marks=[pytest.mark.long] if each in SLOW else []) for each in lying_guest.LIES]
)
def test_only_the_session_of_a_guest_that_lies_has_to_do_with_it(
    beset: RunningService, rest: Rest, neighbour: LiveSession, lie: str
) -> None:
    before, logged = record_of(neighbour), len(beset.output)
    memory, disk = reset_peak_memory(beset.service_pid), disk_bytes(beset.data_dir)
    with rest.session(timeout_seconds=600) as session:
        session.run("x = 41")
        sandbox = beset.data_dir / "sandboxes" / session.id
        running = session.submit(TELL.format(lie=lie), timeout_seconds=5)
        eventually((sandbox / "storage" / "workspace" / "begun").exists)
        with ThreadPoolExecutor(len(ASKS)) as threads:
            asked = [threads.submit(ask, session, *each) for each in ASKS]
            while wait(asked, timeout=0.2).not_done:
                neighbour.works()
            told = "\n".join(each.result() for each in asked)
        assert TOLD.get(lie, "") in told, told
        outcome = session.outcome(running["id"])
        assert outcome["status"] in ENDS
        assert ENDED.get(lie, "") in str(outcome["death"]), outcome
        assert "never asked for" not in str(record_of(session))
    assert session.show()["status"] == "TERMINATED"
    eventually(lambda: not sandbox.exists())
    neighbour.works()
    assert record_of(neighbour)[: len(before)] == before
    grown = peak_memory(beset.service_pid) - memory
    assert grown < MOST_MEMORY_BYTES, f"the service grew by {grown:,} bytes"
    written = disk_bytes(beset.data_dir) - disk
    assert written < MOST_DISK_BYTES, f"{written:,} bytes more on the disk"
    unexpected = [line for line in beset.output[logged:] if re.search(r"Traceback|\[(error|critical)|exc_info", line)]
    assert not unexpected, unexpected


def ask(session: LiveSession, method: str, path: str, body: Any) -> str:
    """What the session's owner is told of the cause, or nothing where the answer is what was asked for."""
    answer = session.rest.http.request(method, f"{session.path}{path}", json=body)
    said = answer.json()
    if answer.is_success:
        json.dumps(said, allow_nan=False)
        return ""
    assert said["error"]["code"] != "internal", said
    return f"{method} {path}: {said['error']['message']}"


def record_of(session: LiveSession) -> list[Any]:
    """Its executions, from the first on, and what they have shown; other fields are filled in a moment later."""
    rows = session.rest.get(f"{session.path}/executions?limit=1000")["items"]
    return [[row.get(name) for name in RECORDED] for row in sorted(rows, key=lambda row: str(row["queued_at"]))]


def reset_peak_memory(pid: int) -> int:
    Path(f"/proc/{pid}/clear_refs").write_text("5")
    return peak_memory(pid)


def peak_memory(pid: int) -> int:
    found = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    assert found is not None
    return int(found[1]) << 10


def disk_bytes(directory: Path) -> int:
    """What the service has written there; its sandboxes have disks of their own, with a bound."""
    return sum(
        each.lstat().st_blocks * 512
        for top in directory.iterdir()
        if top.name not in {"sandboxes", "guest"}
        for each in (top, *top.rglob("*"))
        if os.path.lexists(each)
    )
