"""A session under gVisor as its user has it: it sleeps by itself with a thread and an open file, and wakes."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from sandcell import Client, Session
from tests.gateways import Gateways
from tests.integration.kernel_gateway.server.eventually import eventually
from tests.postgresql_server import PostgresqlServer
from tests.running_service import RunningService

TABLE = """
[asleep]
image = "python"
runtime = "runsc"
hibernate_seconds = 1
"""
BEGIN = """
import subprocess, threading, time
beats = 0
def beat():
    global beats
    while True:
        beats += 1
        time.sleep(0.02)
threading.Thread(target=beat, daemon=True).start()
log = open("log", "w+")
print("first", file=log, flush=True)
child = subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
"""
GO_ON = """
seen = beats
while beats == seen:
    time.sleep(0.01)
print("next", file=log, flush=True)
child.stdin.write(b"heard\\n")
child.stdin.flush()
print(child.stdout.readline().decode() + open("log").read())
"""


def asleep(session: Session) -> bool:
    return session.refresh().status == "HIBERNATED"


def damage(service: RunningService, session: Session) -> None:
    saved = service.data_dir / "sandboxes" / session.id / "saved"
    image = max(
        saved.iterdir(), key=lambda each: each.stat().st_size
    )  # newer builds have the memory in a file of its own
    content = bytearray(image.read_bytes())
    content[len(content) // 3] ^= 1
    image.write_bytes(content)


@pytest.mark.sample("images")
@pytest.mark.parametrize("end", ["stop", "kill"])
def test_a_session_with_a_thread_and_an_open_file_sleeps_and_wakes(
    make_service: Callable[..., RunningService], tmp_path: Path, end: str
) -> None:
    (tmp_path / "environments.toml").write_text(TABLE)
    service = make_service(environments_file=tmp_path / "environments.toml", keep_sessions_on_shutdown=True)
    with Client(service.url, service.token) as client:
        session = client.attach(client.start_session("asleep").id)
        session.run(BEGIN)
        eventually(lambda: asleep(session))
        report = session.info.hibernated
        assert report is not None
        assert (report.kept_as, report.processes_lost) == ("processes", None)
        assert report.image_bytes > report.size_bytes
        eventually(lambda: processes_of(session) == "")  # what makes the image safe has runsc look, too
        assert session.run(GO_ON).stdout == "heard\nfirst\nnext\n\n"
        assert (session.refresh().generation, session.info.restored) == (1, None)
        eventually(lambda: asleep(session))
    service.stop() if end == "stop" else service.kill()
    service.start()
    with Client(service.url, service.token) as client:
        session = client.attach(session.id)
        assert session.info.status == "HIBERNATED"
        assert session.run(GO_ON).stdout == "heard\nfirst\nnext\nnext\n\n"
        assert session.refresh().generation == 1
        eventually(lambda: asleep(session))
        damage(service, session)
        assert session.run("print(beats > 0, open('log').read())").stdout == "True first\nnext\nnext\n\n"
        restored = session.refresh().restored
        assert restored is not None
        assert restored.processes_lost == "its processes could not go on: the image of its processes is damaged"
        assert {each.name: each.outcome for each in restored.variables}["log"] == "lost"
        session.stop()
    assert service.stop() == 0


@pytest.mark.sample("images")
def test_a_session_that_sleeps_wakes_at_another_gateway_of_the_host(
    make_service: Callable[..., RunningService], postgresql: PostgresqlServer, tmp_path: Path
) -> None:
    (tmp_path / "environments.toml").write_text(TABLE)
    url, table = postgresql.create_database(migrated=False), tmp_path / "environments.toml"
    gateways = Gateways(make_service, url, tmp_path / "store", gateway_lease_seconds=4, environments_file=table)
    one, other = gateways.start_two()
    with Client(one.url, one.token) as client:
        session = client.attach(client.start_session("asleep").id)
        session.run(BEGIN)
        eventually(lambda: asleep(session))
    one.kill()
    wake_at(other, session.id, "first\nnext\n")
    one.start()  # it has nothing of the session, and leaves it alone
    other.kill()
    wake_at(one, session.id, "first\nnext\nnext\n", stop=True)
    other.start()  # one that is killed leaves its mount and its group
    for each in (one, other):
        each.stop()


def wake_at(service: RunningService, session_id: str, lines: str, *, stop: bool = False) -> None:
    """It goes on with its processes at this service, and sleeps again."""
    with Client(service.url, service.token) as client:
        session = client.attach(session_id)
        assert session.info.status == "HIBERNATED"
        assert session.run(GO_ON).stdout == f"heard\n{lines}\n"
        assert (session.refresh().generation, session.info.restored) == (1, None)
        eventually(lambda: asleep(session))
        report = session.info.hibernated
        assert report is not None
        assert (report.kept_as, report.processes_lost) == ("processes", None)
        if stop:
            session.stop()


def processes_of(session: Session) -> str:
    """Command lines that name its sandbox, as those of gVisor do."""
    found = subprocess.run(["pgrep", "-fa", session.id], capture_output=True, text=True, check=False)
    return found.stdout
