"""A person has a session to themselves: whose code runs, whose waits, and that it ends."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from sqlalchemy.exc import IntegrityError

from kernel_gateway.errors import NotFound, SessionBusy
from sandcell.models.commands import CommandRequest
from sandcell.models.executions import Execution, Submission
from sandcell.models.leases import TakeLease
from tests.integration.kernel_gateway.services.attach.client import Room

OnGateway = Callable[[Callable[[Room], Awaitable[None]]], None]


async def waited(room: Room, execution: Execution) -> Execution:
    async with asyncio.timeout(120):
        return await room.gateway.services.executions.wait(room.gateway.me, room.session.id, execution.id)


def test_attached_cells_run_and_an_agents_wait_until_the_lease_has_run_out(on_gateway: OnGateway) -> None:
    async def test(room: Room) -> None:
        leases, me, session = room.gateway.services.leases, room.gateway.me, room.session.id
        await room.run("order = []")
        ann = await room.attach("ann")
        held = await leases.take(me, session, TakeLease(60, "ann"))
        agents = await room.gateway.submit(room.session, "order.append('agent'); print(order)")
        await ann.done(await ann.execute("order.append('ann')"))
        assert (await room.gateway.services.executions.get(me, session, agents.id)).status == "queued"
        assert (await leases.show(me, session)).holder == "ann"
        assert (await leases.show(me, session)).id is None
        await leases.take(me, session, TakeLease(120), held.id)
        room.gateway.clock.advance(61)
        await ann.done(await ann.execute("order.append('ann again')"))
        room.gateway.clock.advance(60)
        assert (await waited(room, agents)).stdout == "['ann', 'ann again', 'agent']\n"
        with pytest.raises(NotFound):
            await leases.show(me, session)

    on_gateway(test)


def test_a_caller_that_does_not_wait_is_refused_with_the_name_of_the_holder(on_gateway: OnGateway) -> None:
    async def test(room: Room) -> None:
        services, me, session = room.gateway.services, room.gateway.me, room.session.id
        held = await services.leases.take(me, session, TakeLease(60, "ann"))
        for on_busy in ("reject", "interrupt"):
            with pytest.raises(SessionBusy) as refused:
                await services.executions.submit(me, session, Submission("1", on_busy=on_busy))
            assert refused.value.details["lease"]["holder"] == "ann"
        with pytest.raises(SessionBusy):
            await services.commands.run(me, session, CommandRequest("true"))
        with pytest.raises(SessionBusy):
            await services.leases.take(me, session, TakeLease(60, "ben"))
        mine = await services.executions.submit(me, session, Submission("print('mine')"), lease=held.id)
        assert (await waited(room, mine)).stdout == "mine\n"
        assert (await services.commands.run(me, session, CommandRequest("true"), lease=held.id)).exit_code == 0
        await services.leases.give_back(me, session)
        assert await room.run("print('free')") == "free\n"

    on_gateway(test)


def test_a_lease_that_is_renewed_for_a_shorter_time_ends_then(on_gateway: OnGateway) -> None:
    async def test(room: Room) -> None:
        leases, me, session = room.gateway.services.leases, room.gateway.me, room.session.id
        held = await leases.take(me, session, TakeLease(600, "ann"))
        agents = await room.gateway.submit(room.session, "print('now')")
        await leases.take(me, session, TakeLease(2), held.id)
        room.gateway.clock.advance(3)
        assert (await waited(room, agents)).stdout == "now\n"

    on_gateway(test)


def test_leases_that_were_given_back_and_sessions_that_ended_leave_nothing_waiting(on_gateway: OnGateway) -> None:
    async def test(room: Room) -> None:
        services, me = room.gateway.services, room.gateway.me
        other = await room.gateway.start()

        async def following() -> int:
            await asyncio.sleep(0)
            return sum(task.get_name() == f"lease of {other.id}" for task in asyncio.all_tasks())

        for _ in range(3):
            held = await services.leases.take(me, other.id, TakeLease(600))
            await services.leases.take(me, other.id, TakeLease(900), held.id)
            assert await following() == 1
            await services.leases.give_back(me, other.id)
            assert await following() == 0
        await services.leases.take(me, other.id, TakeLease(600))
        await services.sessions.stop(me, other.id)
        assert await following() == 0

    on_gateway(test)


def test_what_waits_for_the_end_of_a_lease_can_be_interrupted(on_gateway: OnGateway) -> None:
    async def test(room: Room) -> None:
        services, me, session = room.gateway.services, room.gateway.me, room.session.id
        await services.leases.take(me, session, TakeLease(600, "ann"))
        agents = await room.gateway.submit(room.session, "print('never')")
        await services.executions.interrupt(me, session, agents.id)
        ended = await waited(room, agents)
        assert (ended.status, ended.stdout) == ("interrupted", "")
        assert (await services.leases.show(me, session)).holder == "ann"
        await services.leases.give_back(me, session)

    on_gateway(test)


def test_a_lease_that_could_not_be_recorded_is_none(on_gateway: OnGateway) -> None:
    async def test(room: Room) -> None:
        services, me, session = room.gateway.services, room.gateway.me, room.session.id
        database = services.database
        refuse = "CREATE TRIGGER refuse BEFORE INSERT ON notes BEGIN SELECT RAISE(ABORT, 'no notes today'); END"
        await database.run(lambda c: c.exec_driver_sql(refuse))
        try:
            with pytest.raises(IntegrityError, match="no notes today"):
                await services.leases.take(me, session, TakeLease(600))
        finally:
            await database.run(lambda c: c.exec_driver_sql("DROP TRIGGER refuse"))
        assert await room.run("print('free')") == "free\n"

    on_gateway(test)


def test_the_record_says_who_held_the_session(on_gateway: OnGateway) -> None:
    async def test(room: Room) -> None:
        services, me, session = room.gateway.services, room.gateway.me, room.session.id
        await services.leases.take(me, session, TakeLease(60, "`ann`\n# and more"))
        await services.leases.give_back(me, session)

        async def recorded() -> bool:
            notebook = await services.notebooks.notebook(me, session)
            return b"`'ann' # and more` took the session" in notebook and b"It was given back." in notebook

        await room.gateway.until(recorded)

    on_gateway(test)
