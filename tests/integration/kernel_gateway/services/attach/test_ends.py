"""Kernels that die, are restarted or end while clients are attached, and a service that drains."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path

from tests.integration.kernel_gateway.services.attach.client import Room
from tests.integration.kernel_gateway.services.conftest import House

OnGateway = Callable[[Callable[[Room], Awaitable[None]]], None]


async def fresh(room: Room, test: Callable[[Room], Awaitable[None]]) -> None:
    """Run a test with a session that it may end."""
    async with Room(room.gateway, await room.gateway.start()) as own:
        await test(own)
        await room.gateway.services.sessions.stop(room.gateway.me, own.session.id)


def states_of_all(room: Room) -> list[str]:
    ours = [each.message for each in room.clients[0].got if each.message.msg_type == "status"]
    return [each.content["execution_state"] for each in ours if not each.parent_id]


def test_a_kernel_that_dies_answers_its_cell_and_another_takes_its_place(on_gateway: OnGateway) -> None:
    async def test(room: Room) -> None:
        ann = await room.attach("ann")
        dies = await ann.execute("import os; os.kill(os.getpid(), 9)")
        follows = await ann.execute("print('never on another kernel')")
        reply = await ann.done(dies)
        assert (reply["status"], reply["ename"]) == ("error", "KernelDied")
        assert "SIGKILL" in reply["evalue"]
        assert ann.of(dies, "error")
        assert (await ann.done(follows))["status"] == "aborted"
        await ann.until(lambda: states_of_all(room)[-3:] == ["restarting", "starting", "idle"])
        after = await ann.execute("print('blank')")
        await ann.done(after)
        assert ann.stdout(after) == "blank\n"

        async def idle() -> bool:
            return room.state() == "idle"

        await room.gateway.until(idle)

    on_gateway(lambda room: fresh(room, test))


def test_a_restart_is_told_and_the_connection_goes_on(on_gateway: OnGateway) -> None:
    async def test(room: Room) -> None:
        ann = await room.attach("ann")
        running = await ann.execute("import time\nprint('begun', flush=True)\ntime.sleep(60)")
        await ann.until(lambda: "begun" in ann.stdout(running))
        await room.gateway.services.sessions.restart(room.gateway.me, room.session.id)
        assert (await ann.done(running))["ename"] == "KernelDied"
        await ann.until(lambda: states_of_all(room)[-2:] == ["starting", "idle"])
        assert "restarting" not in states_of_all(room)  # which is what clients take for a death
        asked = await ann.send("shell", "kernel_info_request", {})
        await ann.reply(asked, "kernel_info_reply")

    on_gateway(lambda room: fresh(room, test))


def test_a_cell_past_its_timeout_that_heeds_no_interrupt_is_answered(on_gateway: OnGateway) -> None:
    async def test(room: Room) -> None:
        ann = await room.attach("ann")
        agents = await room.gateway.submit(
            room.session,
            "import signal, time\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nwhile True: time.sleep(1)",
            timeout_seconds=3,
        )
        waits = await ann.execute("print('for the kernel that is gone')")
        assert (await ann.done(waits))["status"] == "aborted"
        async with asyncio.timeout(120):
            await room.gateway.services.executions.wait(room.gateway.me, room.session.id, agents.id)

    on_gateway(lambda room: fresh(room, test))


def test_shutdown_requests_of_visitors_are_dropped(on_gateway: OnGateway) -> None:
    async def test(room: Room) -> None:
        ann = await room.attach("ann", attached=True)
        await ann.execute("kept = 1")
        for channel in ("control", "shell"):
            await ann.send(channel, "shutdown_request", {"restart": False})
            await ann.send(channel, "shutdown_request", {"restart": True})
        cell = await ann.execute("print(kept)")
        await ann.done(cell)
        assert ann.stdout(cell) == "1\n"
        assert not ann.of(cell, "shutdown_reply")

    on_gateway(lambda room: fresh(room, test))


def test_an_owner_may_restart_and_end_over_the_wire_and_a_visitor_restart_if_granted(on_gateway: OnGateway) -> None:
    async def test(room: Room) -> None:
        ann = await room.attach("ann", attached=True, can=frozenset({"restart"}))
        asked = await ann.send("control", "shutdown_request", {"restart": True})
        assert (await ann.reply(asked, "shutdown_reply"))["restart"] is True
        await ann.until(lambda: states_of_all(room)[-2:] == ["starting", "idle"])

        async def recorded() -> bool:
            notebook = await room.gateway.services.notebooks.notebook(room.gateway.me, room.session.id)
            return b"asked for by `ann (attached)`" in notebook

        await room.gateway.until(recorded)
        owner = await room.attach("owner")
        await owner.send("control", "shutdown_request", {"restart": False})
        assert (await ann.ended()).reason == "session_ended"
        assert (await owner.ended()).reason == "session_ended"
        await ann.until(lambda: states_of_all(room)[-1] == "dead")
        assert room.state() == "dead"

    on_gateway(lambda room: fresh(room, test))


def test_the_end_of_a_session_answers_what_waits(on_gateway: OnGateway) -> None:
    async def test(room: Room) -> None:
        ann = await room.attach("ann")
        running = await ann.execute("import time\nprint('begun', flush=True)\ntime.sleep(60)")
        waits = await ann.execute("print('never')")
        await ann.until(lambda: "begun" in ann.stdout(running))
        await room.gateway.services.sessions.stop(room.gateway.me, room.session.id)
        assert (await ann.done(running))["status"] == "error"
        assert (await ann.done(waits))["status"] == "aborted"
        assert (await ann.ended()).reason == "session_ended"

    on_gateway(lambda room: fresh(room, test))


def test_a_service_that_drains_lets_what_runs_end_and_says_why_it_leaves(house: House, tmp_path: Path) -> None:
    async def test() -> None:
        own = House(replace(house.settings, data_dir=str(tmp_path), run_dir=house.settings.run_dir + "2"))
        async with own.gateway() as gateway, Room(gateway, await gateway.start()) as room:
            ann = await room.attach("ann")
            cell = await ann.execute("import time\nprint('begun', flush=True)\ntime.sleep(1)\nprint('ended')")
            await ann.until(lambda: "begun" in ann.stdout(cell))
            await gateway.services.shutdown.run()
            assert (await ann.ended()).reason == "draining"
            await ann.done(cell)
            assert ann.stdout(cell) == "begun\nended\n"

    asyncio.run(test())
