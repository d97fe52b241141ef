"""Whether an answer waits until the files are in the store, per session and per execution, and what is said of it."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from kernel_gateway.errors import InvalidRequest
from sandcell.models.commands import Command, CommandRequest
from sandcell.models.sessions import Session
from sandcell.models.sync import DurableExecution
from tests.integration.kernel_gateway.faces.agentcore.tools.conftest import Tools
from tests.integration.kernel_gateway.services.attach.client import Room
from tests.integration.kernel_gateway.services.conftest import Gateway, House
from workspace_sync import DurableWorkspace

OnGateway = Callable[[Callable[[Gateway], Awaitable[None]]], None]
LONG_SECONDS, SHORT_SECONDS = 120.0, 1.0
WRITE = "open('{0}', 'w').write('{0}')"


@pytest.fixture
def house(house: House) -> House:
    """Answers wait long: hosts may be slow."""
    return House(replace(house.settings, flush_deadline_seconds=LONG_SECONDS))


def go_away(gateway: Gateway, session: Session) -> None:
    """The store is away from now on, and answers of the session do not wait long for it."""
    live = gateway.services.registry.get(session.id)
    assert live is not None
    live.sandbox.flushes.deadline_seconds = SHORT_SECONDS
    gateway.store.away = True


def durable(gateway: Gateway, session: Session) -> DurableWorkspace:
    return DurableWorkspace(gateway.store, f"workspaces/sessions/{session.workspace_id}")


def as_of(gateway: Gateway, session: Session) -> str:
    """The execution that the manifest in the store is as of."""
    with gateway.store.get(f"workspaces/sessions/{session.workspace_id}/manifest.json") as stream:
        return str(msgspec.json.decode(stream.read())["execution"]["id"])


async def command(gateway: Gateway, session: Session, text: str, **body: object) -> Command:
    request = CommandRequest(text, **body)  # type: ignore[arg-type]
    return await gateway.services.commands.run(gateway.me, session.id, request)


def test_an_answer_that_waits_finds_its_files_in_the_store(on_gateway: OnGateway) -> None:
    async def scenario(gateway: Gateway) -> None:
        session = await gateway.start(sync="before_return")
        assert (session.sync.mode, session.sync.durable) == ("before_return", None)
        by_session = await gateway.run(session, WRITE.format("by-session"))
        assert (by_session.sync.mode, by_session.sync.durable, by_session.sync.error) == ("before_return", True, None)
        assert durable(gateway, session).stat("by-session").size == len("by-session")
        assert as_of(gateway, session) == by_session.id
        by_command = await command(gateway, session, "echo hello > by-command")
        assert by_command.sync.durable is True
        assert durable(gateway, session).stat("by-command").size == 6
        shown = (await gateway.show(session)).sync
        assert shown.durable is not None
        assert shown.durable.number == 2
        assert as_of(gateway, session) == shown.durable.execution_id

        by_itself = await gateway.run(session, WRITE.format("by-itself"), sync="async")
        assert by_itself.sync.mode == "async"

        async def known() -> bool:
            found = await gateway.services.executions.get(gateway.me, session.id, by_itself.id)
            return found.sync.durable is True

        await gateway.until(known)
        assert as_of(gateway, session) == by_itself.id

    on_gateway(scenario)


def test_a_store_that_is_away_costs_the_answer_its_wait_and_nothing_else(on_gateway: OnGateway) -> None:
    async def scenario(gateway: Gateway) -> None:
        session = await gateway.start()
        assert (await gateway.run(session, "1", sync="before_return")).sync.durable is True
        go_away(gateway, session)
        late = await gateway.run(session, f"{WRITE.format('late')}\nprint('done')", sync="before_return")
        assert (late.status, late.stdout, late.sync.durable) == ("ok", "done\n", False)
        assert "the store does not answer" in (late.sync.error or "")
        by_command = await command(gateway, session, "echo late", sync="before_return")
        assert (by_command.stdout, by_command.sync.durable) == ("late\n", False)
        assert (await gateway.run(session, "2")).status == "ok"
        shown = (await gateway.show(session)).sync
        assert shown.pending
        assert shown.durable is not None
        assert shown.durable.number == 1
        assert "the store does not answer" in (shown.error or "")
        gateway.store.away = False

        async def known() -> bool:
            found = await gateway.services.executions.get(gateway.me, session.id, late.id)
            return found.sync.durable is True

        await gateway.until(known)
        assert durable(gateway, session).stat("late").size == 4

    on_gateway(scenario)


def test_an_answer_is_held_back_from_everyone_who_asks_until_it_is_interrupted(house: House) -> None:
    async def scenario() -> None:
        async with house.gateway() as gateway:
            session = await gateway.start()
            gateway.store.away = True
            held = await gateway.submit(session, WRITE.format("held"), "a-key", sync="before_return")

            async def settling() -> bool:
                live = gateway.services.registry.get(session.id)
                return live is not None and live.running is not None and live.running.is_settling

            await gateway.until(settling)
            again = await gateway.submit(session, WRITE.format("held"), "a-key", sync="before_return")
            assert (again.id, again.status) == (held.id, "running")
            behind = await gateway.submit(session, "'behind'")
            shown = await gateway.services.executions.get(gateway.me, session.id, held.id)
            assert (shown.status, shown.sync.durable) == ("running", None)
            page = await gateway.services.executions.list(gateway.me, session.id)
            assert [each.status for each in page.items] == ["running", "queued"]
            await gateway.services.executions.interrupt(gateway.me, session.id, held.id)
            async with asyncio.timeout(120):
                answer = await gateway.services.executions.wait(gateway.me, session.id, held.id)
                assert (await gateway.services.executions.wait(gateway.me, session.id, behind.id)).status == "ok"
            assert (answer.status, answer.sync.durable) == ("ok", False)
            assert answer.sync.error == "the wait for the store was interrupted"
            assert await gateway.text(session, "open('held').read()") == "'held'"
            gateway.store.away = False

    asyncio.run(scenario())


def test_a_background_task_has_no_answer_that_could_wait(on_gateway: OnGateway) -> None:
    async def scenario(gateway: Gateway) -> None:
        session = await gateway.start(sync="before_return")
        with pytest.raises(InvalidRequest, match="background task's answer does not wait"):
            await command(gateway, session, "true", background=True, sync="before_return")
        task = await command(gateway, session, "true", background=True)
        assert (task.sync.mode, task.sync.durable) == ("async", None)

    on_gateway(scenario)


def test_what_is_durable_is_known_after_the_session_and_after_a_restart(house: House) -> None:
    async def scenario() -> None:
        async with house.gateway(keep_sessions_on_shutdown=True) as gateway:
            session = await gateway.start()
            first = await gateway.run(session, WRITE.format("first"), sync="before_return")
        async with house.gateway() as gateway:
            known = await gateway.services.executions.get(gateway.me, session.id, first.id)
            assert known.sync.durable is True
            second = await gateway.run(session, WRITE.format("second"))
            ended = await gateway.services.sessions.stop(gateway.me, session.id)
            assert ended.sync.durable is not None
            assert (ended.sync.durable.execution_id, ended.sync.durable.number) == (second.id, 2)
            assert not ended.sync.pending
            page = await gateway.services.executions.list(gateway.me, session.id)
            assert [each.sync.durable for each in page.items] == [True, True]
            events = await gateway.services.executions.events(gateway.me, session.id, first.id)
            last = [event async for event in events][-1]
            assert last.data["sync"] == {"mode": "before_return", "durable": True, "error": None}

    asyncio.run(scenario())


def test_what_a_dead_sandbox_left_is_durable_and_nothing_of_it_pending(house: House) -> None:
    async def scenario() -> None:
        async with house.gateway(keep_sessions_on_shutdown=True, flush_deadline_seconds=SHORT_SECONDS) as gateway:
            session = await gateway.start()
            await gateway.run(session, WRITE.format("first"), sync="before_return")
            gateway.store.away = True
            last = await gateway.run(session, WRITE.format("late"))
        first_process = Path(house.settings.data_dir) / "sandboxes" / session.id / "bundle" / "pid"
        os.kill(int(first_process.read_text()), signal.SIGKILL)
        async with house.gateway() as gateway:

            async def known() -> bool:
                sync = (await gateway.show(session)).sync
                return sync.durable is not None and sync.durable.execution_id == last.id

            await gateway.until(known)
            ended = await gateway.services.sessions.stop(gateway.me, session.id)
            assert (ended.sync.pending, ended.sync.durable) == (False, DurableExecution(last.id, 2))
            assert durable(gateway, session).stat("late").size == 4

    asyncio.run(scenario())


def test_what_an_earlier_session_left_durable_is_not_taken_for_this_ones(house: House) -> None:
    async def scenario() -> None:
        async with house.gateway(keep_sessions_on_shutdown=True) as gateway:
            earlier = await gateway.start()
            await gateway.run(earlier, WRITE.format("first"))
            await gateway.run(earlier, WRITE.format("second"), sync="before_return")
            await gateway.services.sessions.stop(gateway.me, earlier.id)
            session = await gateway.start(workspace_id=earlier.workspace_id)
            assert session.sync.durable is None
            live = gateway.services.registry.get(session.id)
            assert live is not None
            await live.sandbox.ready()  # else it gets a new sandbox, with nothing to flush
        async with house.gateway() as gateway:

            async def flushed() -> bool:
                return (await gateway.show(session)).sync.last_flush_at is not None

            await gateway.until(flushed)
            assert (await gateway.show(session)).sync.durable is None
            gateway.store.away = True
            assert (await gateway.run(session, WRITE.format("third"))).sync.durable is False
            gateway.store.away = False

    asyncio.run(scenario())


def test_tools_of_the_agentcore_face_are_answered_as_the_session_has_it(on_gateway: OnGateway) -> None:
    async def scenario(gateway: Gateway) -> None:
        session = await gateway.start(sync="before_return")
        tools = Tools(gateway, session)
        await tools("executeCode", language="python", code=WRITE.format("by-code"))
        assert durable(gateway, session).stat("by-code").size == 7
        await tools("executeCommand", command="echo hello > by-command")
        assert durable(gateway, session).stat("by-command").size == 6

    on_gateway(scenario)


def test_a_cell_of_an_attached_client_is_answered_as_the_session_has_it(on_gateway: OnGateway) -> None:
    async def scenario(gateway: Gateway) -> None:
        session = await gateway.start(sync="before_return")
        async with Room(gateway, session) as room:
            ann = await room.attach("ann")
            stored = await ann.execute(f"n = {WRITE.format('by-ann')}")
            assert (await ann.done(stored))["status"] == "ok"
            assert durable(gateway, session).stat("by-ann").size == 6
            go_away(gateway, session)
            late = await ann.execute(f"n = {WRITE.format('late')}")
            assert (await ann.done(late))["status"] == "ok"
            assert "the files are not in the store yet" in ann.stdout(late)
            assert "the store does not answer" in ann.stdout(late)
            replied = ann.got.index(ann.of(late, "execute_reply")[0])
            assert ann.got.index(ann.of(late, "stream")[0]) < replied, "the reply waits, and comes last"
            gateway.store.away = False

    on_gateway(scenario)
