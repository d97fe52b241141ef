"""Checkpoints: what is kept of a session, what begins from it, what there is no room for, and what is removed."""

from __future__ import annotations

import asyncio
import io
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest

from kernel_gateway.errors import InvalidRequest as TooLong
from kernel_gateway.errors import QuotaReached, SessionBusy, StoreUnavailable
from kernel_gateway.storage.states import checkpoints as rows
from sandcell import Client, Conflict, InvalidRequest, NotFound
from sandcell.models.sessions import Forked, ForkPoint, Session, StartSession, UndoRequest
from tests.integration.kernel_gateway.services.conftest import Gateway, House, Test
from tests.running_service import RunningService


def stored(house: House) -> list[str]:
    """What the store has of checkpoints, files and variables."""
    top = Path(house.settings.data_dir) / "store"
    places = [each for name in ("checkpoints", "variables") for each in (top / name).rglob("*")]
    return sorted(str(each.relative_to(top)) for each in places if each.is_file())


def about(info: Session) -> Forked:
    assert info.from_ is not None
    return info.from_


def test_a_fork_begins_from_the_nearest_one_and_runs_the_cells_since(client: Client) -> None:
    with client.session() as session:
        first = session.run("import random; drawn = random.random(); open('log', 'w').write('one')")
        session.run("opened = open('log')")
        kept = session.create_checkpoint()
        assert (kept.cell, kept.executions, kept.files, kept.file_bytes) == (kept.cell, 2, 1, 3)
        assert [(each.name, each.outcome) for each in kept.variables] == [
            ("opened", "lost"),
            ("random", "kept"),
            ("drawn", "kept"),
        ]
        third = session.run("open('log', 'a').write(' two'); count = 3").execution
        session.run("count = 99; open('late', 'w').write('late')")
        info = client.fork_session(session.id, cell=third.id)
        found, fork = about(info), client.attach(info.id)
        assert (found.checkpoint, found.cells, found.different, found.left_out) == (kept.id, 1, [], ["late"])
        assert [(each.name, each.outcome) for each in found.lost] == [("opened", "lost")]
        assert found.lost_besides == kept.lost
        assert any("home directory" in each for each in kept.lost)
        assert fork.run("count, open('log').read()").text == "(3, 'one two')"
        assert fork.run("drawn").text == session.run("drawn").text, "no random number is drawn again"
        notes = [each["source"] for each in json.loads(fork.notebook())["cells"] if each["cell_type"] == "markdown"]
        (note,) = [each for each in notes if f"from its checkpoint `{kept.id}`" in each and "1 of 1 cells" in each]
        assert all(f"- not there: {what}" in note for what in kept.lost)
        fork.stop()
        with pytest.raises(Conflict, match="'opened' is lost") as caught:
            client.fork_session(session.id, cell=third.id, exact=True)
        assert caught.value.details["reason"] == "not_rebuilt"
        earlier = client.fork_session(session.id, cell=first.execution.id)
        assert about(earlier).checkpoint is None, "it comes after that cell"
        client.stop_session(earlier.id)
        last = session.run("count").execution
        session.restart()
        session.create_checkpoint()
        later = client.fork_session(session.id, cell=last.id)
        assert about(later).checkpoint == kept.id, "the other one is of a blank kernel"
        client.stop_session(later.id)


def test_a_lost_name_that_a_cell_needs_is_said_before_anything_is_ready(client: Client) -> None:
    with client.session() as session:
        session.run("numbers = (each for each in range(10)); next(numbers)")
        session.create_checkpoint()
        second = session.run("following = next(numbers); following").execution
        before = {each.id for each in client.list_sessions(status="READY").items}
        with pytest.raises(Conflict, match="`replay`") as caught:
            client.fork_session(session.id, cell=second.id)
        assert caught.value.details["reason"] == "not_rebuilt"
        assert "numbers" in caught.value.details["cells"][0]["why"]
        assert {each.id for each in client.list_sessions(status="READY").items} == before
        fork = client.attach(client.fork_session(session.id, cell=second.id, replay=True).id)
        assert fork.run("following").text == "1"
        fork.stop()


def test_a_session_as_it_is_now_runs_no_cell_again(client: Client) -> None:
    with client.session() as session:
        session.upload("data", b"uploaded")
        session.run("import time; at = time.time(); shared = [1]; alias = shared")
        session.run("print('once', file=open('log', 'a'))")
        info = client.fork_session(session.id, exact=False)
        fork = client.attach(info.id)
        assert (about(info).cells, about(info).session, about(info).left_out) == (0, session.id, [])
        assert fork.run("at, alias is shared, open('log').read(), open('data').read()").text == (
            session.run("at, alias is shared, open('log').read(), open('data').read()").text
        )
        assert client.list_checkpoints(session.id).items == []
        fork.stop()


def test_it_is_listed_shown_and_removed_and_is_nobody_elses(service: RunningService, client: Client) -> None:
    with client.session() as session:
        session.run("open('log', 'w').write('one')")
        made = [session.create_checkpoint() for _ in range(3)]
        session.run("open('log', 'w').write('two')")
        assert client.checkpoint_download(session.id, made[0].id, "log") == b"one"
        with pytest.raises(NotFound):
            client.checkpoint_download(session.id, made[0].id, "nothing")
        assert client.list_checkpoints(session.id, limit=2).items == made[:2]
        assert [each.id for each in session.list_checkpoints().items] == [each.id for each in made]
        assert client.get_checkpoint(session.id, made[1].id) == made[1]
        client.delete_checkpoint(session.id, made[1].id)
        with pytest.raises(NotFound):
            client.get_checkpoint(session.id, made[1].id)
        token = client.create_token("stranger-to-checkpoints", "one").token
        with service.client(token) as stranger:
            for ask in (stranger.create_checkpoint, stranger.list_checkpoints):
                with pytest.raises(NotFound):
                    ask(session.id)
            with pytest.raises(NotFound):
                stranger.get_checkpoint(session.id, made[0].id)
            with pytest.raises(NotFound):
                stranger.checkpoint_download(session.id, made[0].id, "log")
        running = session.submit("import time; time.sleep(600)")
        session.client.get_execution(session.id, running.id)
        with pytest.raises(Conflict) as caught:
            session.create_checkpoint()
        assert caught.value.code == "session_busy"
        session.interrupt()
    assert client.list_checkpoints(session.id).items == []
    with pytest.raises(InvalidRequest):
        client.start_session(checkpoint_every=1_001)


def test_the_command(service: RunningService, client: Client, tmp_path: Path) -> None:
    variables = {"HOME": str(tmp_path), "SANDCELL_URL": service.url, "SANDCELL_TOKEN": service.token}

    def say(*words: str) -> str:
        command = [str(Path(sys.executable).with_name("sandcell")), "checkpoint", *words]
        environment = {**os.environ, **variables}
        return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=240, check=True).stdout

    with client.session() as session:
        session.run("x = 1")
        made = say("new", session.id).strip()
        assert made in say("ls", session.id)
        say("rm", made, "--session", session.id)
        assert client.list_checkpoints(session.id).items == []


async def automatic(gateway: Gateway) -> None:
    session = await gateway.start(checkpoint_every=2)
    for number in range(7):
        await gateway.run(session, f"x = {number}; open('x', 'w').write('{number}')")
    await gateway.text(session, "x")  # what comes next waits until the one before is kept

    async def listed() -> list[tuple[int, bool]]:
        found = await gateway.services.checkpoints.list(gateway.me, session.id)
        return [(each.executions, each.automatic) for each in found.items]

    async def there() -> bool:
        return len(await listed()) == 2 and (await listed())[-1] == (8, True)

    await gateway.until(there)
    assert await listed() == [(6, True), (8, True)], "the oldest have gone"
    asked = await gateway.services.checkpoints.create(gateway.me, session.id)
    later = await gateway.services.checkpoints.create(gateway.me, session.id)
    with pytest.raises(
        QuotaReached, match=f"may have 2 .* The oldest: {asked.id} of session {session.id}, "
    ) as refused:
        await gateway.services.checkpoints.create(gateway.me, session.id)
    assert [each["id"] for each in refused.value.details["removable"]] == [asked.id, later.id]
    await gateway.services.checkpoints.remove(gateway.me, session.id, asked.id)
    gateway.store.away = True
    with pytest.raises(StoreUnavailable):
        await gateway.services.checkpoints.create(gateway.me, session.id)
    gateway.store.away = False
    assert await gateway.text(session, "x") == "6"


def test_automatic_ones_go_for_newer_ones_and_others_stay(house: House) -> None:
    async def test() -> None:
        async with house.gateway(checkpoints_per_session=2) as gateway:
            await automatic(gateway)
            await gateway.services.checkpoints.remove_spent()
            (session,) = list(gateway.services.registry)
            left = await gateway.services.database.run(lambda c: rows.list_all_of(c, session.id))
            assert {each.split("/")[2] for each in stored(house)} == {each.id for each in left}
        async with house.gateway(checkpoints_per_session=2, sweep_interval_seconds=10**6) as gateway:
            await gateway.services.checkpoints.remove_spent()
            assert stored(house) == [], "a session's go with it"

    asyncio.run(test())


def test_one_that_was_cut_off_leaves_nothing_and_none_counts_for_more_than_is_allowed(house: House) -> None:
    async def test() -> None:
        async with house.gateway(keep_sessions_on_shutdown=True) as gateway:
            session = await gateway.start()
            await gateway.run(session, "x = 1")
            live = gateway.services.registry.get(session.id)
            assert live is not None
            await gateway.services.checkpoints.take(live, "passing")
            cut_off = rows.CheckpointRow("cut-off", session.id, "automatic", gateway.clock.now(), 1, 1)
            await gateway.services.database.run(lambda c: rows.begin(c, cut_off))
            gateway.store.put(f"checkpoints/{cut_off.name}/workspace/x", io.BytesIO(b"1"), 1)
            await gateway.services.checkpoints.create(gateway.me, session.id)
        async with house.gateway(checkpoints_mb=0, replay_cells=1) as gateway:
            await gateway.services.checkpoints.remove_spent()
            (kept,) = (await gateway.services.checkpoints.list(gateway.me, session.id)).items
            assert {each.split("/")[2] for each in stored(house)} == {kept.id}
            with pytest.raises(QuotaReached, match="0 MB"):
                await gateway.services.checkpoints.create(gateway.me, session.id)
            at_cell = StartSession(from_=ForkPoint(session.id, cell=kept.cell, exact=True))
            fork = await gateway.services.forks.start(gateway.me, at_cell)
            assert about(fork).checkpoint == kept.id
            assert await gateway.text(fork, "x") == "1"
            await gateway.run(session, "x += 1")
            assert await gateway.text(session, "x") == "2"
            now = await gateway.services.forks.start(gateway.me, StartSession(from_=ForkPoint(session.id)))
            assert await gateway.text(now, "x") == "2", "no cell runs, so that there are three makes no difference"
            replayed = StartSession(from_=ForkPoint(session.id, replay=True))
            with pytest.raises(TooLong, match="at most 1"):
                await gateway.services.forks.start(gateway.me, replayed)

    asyncio.run(test())


def test_how_forks_began_leaves_half_of_the_room_to_what_is_asked_for(house: House) -> None:
    async def test() -> None:
        async with house.gateway(checkpoints_mb=10) as gateway:
            session = await gateway.start()
            await gateway.run(session, "open('large', 'wb').write(bytes(3_000_000)); x = 1")
            begun, forks = [], []
            for _ in range(3):
                fork = await gateway.services.forks.start(gateway.me, StartSession(from_=ForkPoint(session.id)))
                assert await gateway.text(fork, "x") == "1"
                begun.append(len((await gateway.services.checkpoints.list(gateway.me, fork.id)).items))
                forks.append(fork)
            assert begun == [1, 0, 0]
            await gateway.services.checkpoints.create(gateway.me, session.id)
            await gateway.services.checkpoints.create(gateway.me, session.id)
            with pytest.raises(QuotaReached, match="10 MB") as refused:
                await gateway.services.checkpoints.create(gateway.me, session.id)
            named = refused.value.details["removable"]
            pages = [await gateway.services.checkpoints.list(gateway.me, each.id) for each in (session, forks[0])]
            kept = {(each.session_id, each.id) for page in pages for each in page.items}
            assert {(each["session_id"], each["id"]) for each in named} == kept, "of all sessions"
            assert [each["bytes"] for each in named] == sorted((each["bytes"] for each in named), reverse=True)
            largest = named[0]
            assert f"The largest: {largest['id']} of session {largest['session_id']}" in refused.value.message
            assert f"your checkpoints take {sum(each['bytes'] for each in named):,} bytes" in refused.value.message
            await gateway.services.checkpoints.remove(gateway.me, largest["session_id"], largest["id"])
            await gateway.services.checkpoints.create(gateway.me, session.id)

    asyncio.run(test())


def test_those_of_a_session_that_has_ended_take_no_room(house: House) -> None:
    """They are removed by the next round: nobody could remove them until then."""

    async def test() -> None:
        async with house.gateway(checkpoints_mb=1, sweep_interval_seconds=10**6) as gateway:
            for _ in range(2):
                session = await gateway.start()
                await gateway.run(session, "large = bytes(800_000)")
                await gateway.services.checkpoints.create(gateway.me, session.id)
                with pytest.raises(QuotaReached):
                    await gateway.services.checkpoints.create(gateway.me, session.id)
                await gateway.services.sessions.stop(gateway.me, session.id)

    asyncio.run(test())


def test_a_refusal_names_a_few_that_can_be_removed(house: House) -> None:
    async def test() -> None:
        async with house.gateway(checkpoints_per_session=6, keep_sessions_on_shutdown=True) as gateway:
            session = await gateway.start()
            made = [await gateway.services.checkpoints.create(gateway.me, session.id) for _ in range(6)]
            with pytest.raises(QuotaReached) as refused:
                await gateway.services.checkpoints.create(gateway.me, session.id)
            assert [each["id"] for each in refused.value.details["removable"]] == [each.id for each in made[:5]]
        async with house.gateway(checkpoints_mb=0) as gateway:
            with pytest.raises(QuotaReached) as refused:
                await gateway.services.checkpoints.create(gateway.me, session.id)
            assert len(refused.value.details["removable"]) == 5

    asyncio.run(test())


def test_no_hibernation_begins_while_a_session_is_kept_or_taken_back(on_gateway: Callable[[Test], None]) -> None:
    async def test(gateway: Gateway) -> None:
        session = await gateway.start()
        await gateway.run(session, "x = 1; open('x', 'w').write('1')")
        live = gateway.services.registry.get(session.id)
        assert live is not None
        kernel = live.sandbox.kernel
        assert kernel is not None
        said: list[str] = []

        async def hibernate_meanwhile() -> int:
            """In the last wait before a kernel is at hand."""
            vars(kernel).pop("ready")
            generation = await kernel.ready()
            try:
                await gateway.services.hibernation.hibernate(gateway.me, session.id)
            except SessionBusy as error:
                said.append(error.message)
            return generation

        cast("Any", kernel).ready = hibernate_meanwhile
        await gateway.services.checkpoints.create(gateway.me, session.id)
        await gateway.run(session, "x = 2; open('x', 'w').write('2')")
        cast("Any", kernel).ready = hibernate_meanwhile
        await gateway.services.undo.undo(gateway.me, session.id, UndoRequest(1))
        assert len(said) == 2, said
        assert await gateway.text(session, "x, open('x').read()") == "(1, '1')"

    on_gateway(test)
