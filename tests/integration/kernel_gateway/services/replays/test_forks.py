"""Sessions that begin as another was: after a cell, as it is now; what is said of what differs, and what is refused."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from kernel_gateway.errors import SessionBusy
from kernel_gateway.services.workspaces.workspace_copies import WorkspaceCopies
from sandcell import Client, Conflict, InvalidRequest, NotFound
from sandcell.live_session import Session
from sandcell.models.sessions import Forked, ForkPoint, StartSession
from sandcell.models.sessions import Session as SessionInfo
from tests.integration.kernel_gateway.services.conftest import Gateway
from tests.running_service import RunningService
from workspace_sync.workspaces.file_info import FileInfo

LOG = "open('log', 'a').write('{}\\n')"


@pytest.fixture
def worked(client: Client) -> Iterator[Session]:
    """A session with three cells that append to a file, the last of which writes another as well."""
    with client.session(name="original") as session:
        session.upload("in.csv", b"1,2\n")
        session.run("x = 1; " + LOG.format("one"))
        # What was written within a tick of the clock of files before a cell's end counts as written after it.
        session.run("x += 1; " + LOG.format("two") + "; import time; time.sleep(0.1)")
        session.run("x = 99; open('late.txt', 'w').write('late')")
        yield session


def about(info: SessionInfo) -> Forked:
    assert info.from_ is not None
    return info.from_


def read(session: Session) -> dict[str, bytes]:
    return {each.path: session.download(each.path) for each in session.files(recursive=True)}


def live(client: Client) -> set[str]:
    return {each.id for each in client.list_sessions(status="READY").items}


def test_it_is_as_the_other_was_after_a_cell(client: Client, worked: Session) -> None:
    second = [each.id for each in client.list_executions(worked.id).items if "x += 1" in each.code]
    info = client.fork_session(worked.id, cell=second[0], name="branch")
    fork = client.attach(info.id)
    assert (info.status, info.name, info.environment) == ("READY", "branch", "python")
    assert fork.run("x").text == "2"
    assert read(fork) == {"in.csv": b"1,2\n", "log": b"one\ntwo\n"}
    found = about(client.get_session(fork.id))
    assert (found.session, found.cells, found.different) == (worked.id, 2, [])
    assert (found.left_out, found.put_back, found.changed_since) == (["late.txt"], 1, [])
    cells = json.loads(fork.notebook())["cells"]
    (note,) = [cell["source"] for cell in cells if cell["metadata"]["sandcell"].get("kind") == "forked"]
    assert f"began as `{worked.id}` after its cell {found.cell}" in note
    assert "`late.txt` changed later" in note
    assert (worked.run("x").text, worked.refresh().from_) == ("99", None)
    fork.stop()
    again = client.fork_session(fork.id)  # of an ended session, and of a fork
    assert client.attach(again.id).run("x, open('log').read()").text == "(2, 'one\\ntwo\\n')"
    client.stop_session(again.id)


def test_three_ways_from_the_same_state_at_once(client: Client, worked: Session) -> None:
    worked.run("open('made', 'w').close()")
    worked.remove_file("made")
    before = read(worked)
    with ThreadPoolExecutor(3) as pool:
        forks = [client.attach(each.id) for each in pool.map(lambda _: client.fork_session(worked.id), range(3))]
    for number, fork in enumerate(forks):
        assert read(fork) == before
        fork.run(f"x += {number}; open('mine', 'w').close()")
    assert [fork.run("x").text for fork in forks] == ["99", "100", "101"]
    assert read(worked) == before
    for fork in forks:
        fork.stop()


def test_it_keeps_as_much_as_the_original_unless_it_says_otherwise(service: RunningService, client: Client) -> None:
    with client.session(keep_variables="each", keep_variables_mb=7, checkpoint_every=3) as session:
        fork = client.fork_session(session.id)
        assert (fork.keep_variables, fork.keep_variables_mb, fork.checkpoint_every) == ("each", 7, 3)
        body = {"from": {"session": session.id}, "keep_variables": "off", "keep_variables_mb": 9, "checkpoint_every": 0}
        headers = {"Authorization": f"Bearer {service.token}"}
        started = httpx.post(f"{service.url}/v1/sessions", json=body, headers=headers, timeout=60)
        other = client.get_session(started.json()["id"])
        assert (other.keep_variables, other.keep_variables_mb, other.checkpoint_every) == ("off", 9, 0)
    for each in (fork, other):
        client.stop_session(each.id)


def test_a_fork_is_taken_back_to_what_it_began_with(client: Client) -> None:
    with client.session() as original:
        original.run("rows = [3, 1, 2]; open('f', 'w').write('as it was')")
        fork = client.attach(client.fork_session(original.id).id)
        original.run("rows.append(0)")
    first = fork.run("begun = True").execution.id
    for code in ("rows.clear()", "open('f', 'w').close()"):
        fork.run(code)
    fork.undo(2)
    assert fork.run("rows, begun, open('f').read()").text == "([3, 1, 2], True, 'as it was')"
    second = client.attach(client.fork_session(fork.id, cell=first).id)
    assert second.run("rows, begun").text == "([3, 1, 2], True)"
    second.stop()
    (beginning,) = client.list_checkpoints(fork.id).items
    assert (beginning.cell, beginning.id) == (None, about(client.get_session(fork.id)).checkpoint)
    client.delete_checkpoint(fork.id, beginning.id)
    for refused in (fork.undo, lambda: client.fork_session(fork.id, cell=first, replay=True)):
        with pytest.raises(Conflict, match="no checkpoint of its own is kept") as error:
            refused()
        assert error.value.details["reason"] == "not_rebuilt"
    assert fork.run("rows").text == "[3, 1, 2]"
    fork.stop()


def test_a_hibernated_session_is_taken_as_it_was_and_sleeps_on(client: Client) -> None:
    with client.session() as original:
        original.run("import os, pathlib; drawn = os.urandom(8).hex(); open('log', 'a').write('one\\n')")
        original.run("pathlib.Path('~/noted').expanduser().write_text(drawn); opened = open('log')")
        drawn = original.run("drawn").text
        original.hibernate()
        with ThreadPoolExecutor(2) as pool:
            forks = [client.attach(each.id) for each in pool.map(lambda _: client.fork_session(original.id), range(2))]
        with pytest.raises(Conflict, match="its variable 'opened' is lost"):
            client.fork_session(original.id, exact=True)
        assert original.refresh().status == "HIBERNATED"
        for fork in forks:
            found = about(client.get_session(fork.id))
            assert (found.cells, found.different, [each.name for each in found.lost]) == (0, [], ["opened"])
            assert fork.run("drawn").text == drawn
            assert fork.run("pathlib.Path('~/noted').expanduser().read_text() == drawn").text == "True"
            assert read(fork) == {"log": b"one\n"}
        first = forks[0]
        first.run("drawn = None; open('log', 'a').write('two\\n')")
        first.undo()
        assert first.run("drawn, open('log').read()").text == f"({drawn}, 'one\\n')"
        assert original.run("drawn").text == drawn
        for fork in forks:
            fork.stop()


def test_what_differs_is_told_or_refused(client: Client) -> None:
    with client.session() as session:
        session.run("import random; drawn = random.random(); drawn")
        session.run("print('same')")
        info = client.fork_session(session.id, replay=True)
        found = about(info)
        assert [each.verdict for each in found.different] == ["different"]
        assert found.cells == 2
        client.stop_session(info.id)
        before = live(client)
        with pytest.raises(Conflict) as caught:
            client.fork_session(session.id, exact=True, replay=True)
        assert caught.value.details["reason"] == "not_rebuilt"
        assert [each["number"] for each in caught.value.details["cells"]] == [found.different[0].number]
        assert live(client) == before


def test_a_state_that_cannot_be_built_again_is_no_session(client: Client) -> None:
    with client.session() as session:
        session.upload("data", b"first")
        execution = session.run("text = open('data').read()").execution
        session.upload("data", b"second")
        session.run("open(b'late-\\xff', 'w').write('no text')")
        before = live(client)
        with pytest.raises(Conflict, match="FileNotFoundError") as caught:
            client.fork_session(session.id, cell=execution.id)
        assert [each["verdict"] for each in caught.value.details["cells"]] == ["failed"]
        assert live(client) == before
        for replay, text in ((True, "'second'"), (False, "'first'")):  # the first is in a variable alone by now
            now = client.attach(client.fork_session(session.id, replay=replay).id)
            assert now.run("text").text == text
            assert now.run("open(b'late-\\xff').read()").text == "'no text'"
            now.stop()


def test_restarts_and_other_languages_come_along(client: Client) -> None:
    with client.session() as session:
        session.run("gone = 1")
        session.restart()
        session.run("kept = 2")
        session.run("let there = 3", language="javascript")
        session.shell("echo by the shell > shell.txt")
        fork = client.attach(client.fork_session(session.id, replay=True).id)
        assert fork.run("'gone' in globals(), kept, open('shell.txt').read()").text == "(False, 2, 'by the shell\\n')"
        assert fork.run("there", language="javascript").text == "3"
        fork.stop()


def test_what_no_record_tells_of_is_not_built_again_and_takes_no_place(service: RunningService, client: Client) -> None:
    with client.session() as session:
        first = session.run("x = 1").execution
        headers = {"E2b-Sandbox-Id": session.id.replace("-", ""), "X-API-Key": service.token}
        asked = {"code": "import os; os.getenv('GIVEN')", "env_vars": {"GIVEN": "once"}}
        assert httpx.post(f"{service.url}/execute", json=asked, headers=headers, timeout=120).status_code == 200
        for _ in range(6):  # more than one principal's replays at once
            with pytest.raises(Conflict, match="E2B client"):
                client.fork_session(session.id, replay=True)
        fork = client.attach(client.fork_session(session.id, cell=first.id).id)
        assert fork.run("x").text == "1"
        fork.stop()


def test_what_makes_no_sense_is_refused(service: RunningService, client: Client, worked: Session) -> None:
    with pytest.raises(NotFound):
        client.fork_session("no-such-session")
    with (
        service.client(client.create_token("stranger-to-forks", "one").token) as stranger,
        pytest.raises(NotFound),
    ):
        stranger.fork_session(worked.id)
    with pytest.raises(InvalidRequest, match="no code cell 77") as unknown:
        client.fork_session(worked.id, cell=77)
    assert unknown.value.details["field"] == "from.cell"
    running = worked.submit("import time; time.sleep(600)")
    for unended in (running, worked.submit("1")):
        with pytest.raises(InvalidRequest, match="has not ended: wait for it"):
            client.fork_session(worked.id, cell=unended.id)
    with pytest.raises(Conflict) as caught:
        client.fork_session(worked.id)
    assert caught.value.code == "session_busy"
    worked.interrupt()
    assert client.get_execution(worked.id, running.id).status in ("running", "interrupted")
    for more in ({"environment": "python"}, {"workspace_id": worked.id}, {"replay_of": worked.id}):
        refused = httpx.post(
            f"{service.url}/v1/sessions",
            json={"from": {"session": worked.id}, **more},
            headers={"Authorization": f"Bearer {service.token}"},
        )
        assert (refused.status_code, refused.json()["error"]["code"]) == (400, "invalid_request")


def test_the_command(service: RunningService, client: Client, worked: Session, tmp_path: Path) -> None:
    variables = {"HOME": str(tmp_path), "SANDCELL_URL": service.url, "SANDCELL_TOKEN": service.token}
    command = [str(Path(sys.executable).with_name("sandcell")), "session", "fork", worked.id, "--cell", "3"]
    done = subprocess.run(
        command, env={**os.environ, **variables}, capture_output=True, text=True, timeout=240, check=True
    )
    fork = client.attach(done.stdout.strip())
    assert fork.run("x").text in ("1", "2")
    assert "late.txt: changed later, and was left out" in done.stderr
    fork.stop()


async def run_meanwhile(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cell that runs while a fork of the present state looks at the files would be in these and in no cell."""
    session = await gateway.start()
    await gateway.run(session, "x = 1")
    list_files = WorkspaceCopies.list_files

    async def run_first(copies: WorkspaceCopies, workspace_id: str) -> list[FileInfo]:
        monkeypatch.setattr(WorkspaceCopies, "list_files", list_files)
        await gateway.run(session, "x = 2; open('late', 'w').close()")
        return await list_files(copies, workspace_id)

    monkeypatch.setattr(WorkspaceCopies, "list_files", run_first)
    present = StartSession(from_=ForkPoint(session.id, replay=True))
    with pytest.raises(SessionBusy, match="meanwhile"):
        await gateway.services.forks.start(gateway.me, present)
    assert [each.id for each in gateway.services.registry] == [session.id]
    fork = await gateway.services.forks.start(gateway.me, present)
    assert await gateway.text(fork, "import os; x, os.path.exists('late')") == "(2, True)"


def test_a_fork_of_the_present_state_is_refused_when_something_ran_meanwhile(
    on_gateway: Callable[[Callable[[Gateway], Awaitable[None]]], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    on_gateway(lambda gateway: run_meanwhile(gateway, monkeypatch))
