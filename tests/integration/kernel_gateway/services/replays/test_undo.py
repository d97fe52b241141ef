"""Cells taken back: the session as it was before them, what counts since, and what is refused."""

from __future__ import annotations

import json
import time

import pytest

from sandcell import Client, Conflict, InvalidRequest
from sandcell.live_session import Session


def read(session: Session) -> dict[str, bytes]:
    return {each.path: session.download(each.path) for each in session.files(recursive=True)}


def notes(session: Session) -> list[str]:
    return [each["source"] for each in json.loads(session.notebook())["cells"] if each["cell_type"] == "markdown"]


def test_it_is_as_it_was_before_the_last_cells(client: Client) -> None:
    """From a checkpoint, by a replay from it, and once more after that; forks and replays know what counts."""
    with client.session() as session:
        session.run("import random; drawn = random.random(); log = [1]; open('log', 'w').write('1')")
        drawn = session.run("drawn").text
        session.create_checkpoint()
        session.upload("given", b"before the cell that is undone")
        session.run("log.append('bad'); open('log', 'w').write('bad'); open('made', 'w').close()")
        info = session.undo()
        assert (info.generation, info.status) == (2, "READY")
        assert info.restored is not None
        assert {each.outcome for each in info.restored.variables} == {"restored"}
        assert session.run("log, drawn").text == f"([1], {drawn})"
        assert read(session) == {"log": b"1", "given": b"before the cell that is undone"}
        assert any("**Undone:** cell" in each for each in notes(session))
        last = session.run("log.append(2); open('log', 'a').write('2')").execution
        session.run("log.append('bad'); open('log', 'w').write('bad')")
        session.run("log.append('worse')")
        session.undo(2, exact=True)
        assert session.run("log, drawn, open('log').read()").text == f"([1, 2], {drawn}, '12')"
        assert [each.id for each in client.list_sessions(status="READY").items if each.name == "undo"] == []
        fork = client.attach(client.fork_session(session.id, cell=last.id, replay=True).id)
        assert fork.run("log, open('log').read()").text == "([1, 2], '12')", "what was undone is not run"
        fork.stop()
        replay = client.replay(session_id=session.id)
        undone = [each.number for each in replay.verdicts if each.why == "it was undone"]
        assert len(undone) == 3, replay.verdicts


MADE = """
import os, time
open('made', 'w').close()
os.utime('made', (time.time() - {seconds},) * 2)
"""


def test_files_of_a_cell_go_with_it_whatever_their_times_and_uploads_stay(client: Client) -> None:
    """A busy host gives files the time of an older tick, and programs set times."""
    with client.session() as session:
        first = session.run("log = [1]").execution
        time.sleep(0.2)
        session.upload("given", b"just before the cell")
        session.run(MADE.format(seconds=0.1))
        session.undo()
        assert read(session) == {"given": b"just before the cell"}
        session.run(MADE.format(seconds=10**6))
        for replay in (True, False):
            fork = client.attach(client.fork_session(session.id, cell=first.id, replay=replay).id)
            assert read(fork) == {}
            fork.stop()
        session.undo()
        assert read(session) == {"given": b"just before the cell"}


def test_a_fork_takes_back_all_of_its_cells(client: Client) -> None:
    with client.session() as session:
        session.run("log = [1]; open('log', 'w').write('1')")
        fork = client.attach(client.fork_session(session.id).id)
        fork.upload("given", b"before the first cell")
        fork.run("log.append('bad'); open('log', 'w').write('bad'); open('made', 'w').close()")
        assert fork.undo().generation == 2
        assert fork.run("log").text == "[1]"
        assert read(fork) == {"log": b"1", "given": b"before the first cell"}
        assert any("The session is as it began." in each for each in notes(fork))
        fork.run("log.append('worse')")
        fork.undo(2)
        assert fork.run("log.append(2); log").text == "[1, 2]"
        of_fork = client.attach(client.fork_session(fork.id).id)
        assert of_fork.run("log").text == "[1, 2]"
        of_fork.stop()
        for each in fork.list_checkpoints().items:
            client.delete_checkpoint(fork.id, each.id)
        with pytest.raises(InvalidRequest, match="fork its origin again"):
            fork.undo()
        fork.stop()


def test_what_cannot_be_built_again_stays_as_it_is(client: Client) -> None:
    with client.session() as session:
        with pytest.raises(InvalidRequest, match="no cell that could be taken back"):
            session.undo()
        session.run("numbers = (each for each in range(10)); following = next(numbers)")
        session.create_checkpoint()
        session.run("following = next(numbers)")
        session.run("following = next(numbers)")
        for exact in (False, True):
            with pytest.raises(Conflict) as caught:
                session.undo(exact=exact)
            assert caught.value.details["reason"] == "not_rebuilt"
        assert session.run("following, next(numbers)").text == "(2, 3)"
        assert session.refresh().generation == 1
        with pytest.raises(InvalidRequest, match=r"at most 3 of the session's 4 cells .* a restart gives"):
            session.undo(4)
        session.submit("import time; time.sleep(600)")
        with pytest.raises(Conflict) as caught:
            session.undo()
        assert caught.value.code == "session_busy"
        session.interrupt()
