"""Connections of attached clients: cut and taken up again, too slow, by the thousand, with nobody there."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import Awaitable, Callable

from kernel_gateway.services.attach.attachments import Outgoing
from kernel_gateway.services.sessions.subscribers import MOST_CURSORS, Subscribers
from tests.integration.kernel_gateway.services.attach.client import Room, drained

OnGateway = Callable[[Callable[[Room], Awaitable[None]]], None]
FLOOD = "for number in range(60):\n    print('x' * 50_000, flush=True)"
"""Three times what is kept for clients in these tests."""


def audience_of(room: Room) -> Subscribers:
    live = room.gateway.services.registry.get(room.session.id)
    assert live is not None
    assert live.audience is not None
    return live.audience


def text_of(got: list[Outgoing], msg_id: str) -> str:
    mine = [each.message for each in got if each.message.parent_id == msg_id and each.message.msg_type == "stream"]
    return "".join(each.content["text"] for each in mine)


def test_a_client_cut_in_the_middle_of_output_loses_and_doubles_nothing(on_gateway: OnGateway) -> None:
    async def test(room: Room) -> None:
        ann = await room.attach("ann")
        await room.run("import time")
        cell = await ann.execute("for number in range(40):\n    print(number, flush=True)\n    time.sleep(0.02)")
        got = ann.got
        for _ in range(3):
            seen = len(got)
            await ann.until(lambda seen=seen, client=ann: len(client.got) > seen + 2)  # type: ignore[misc]
            await ann.leave()
            ann = await room.attach("ann")
            ann.got = got
        await ann.done(cell)
        assert text_of(got, cell) == "".join(f"{number}\n" for number in range(40))
        assert len({each.sequence for each in got}) == len(got)

    on_gateway(test)


def test_a_message_on_its_way_when_the_client_is_cut_comes_again(on_gateway: OnGateway) -> None:
    async def test(room: Room) -> None:
        ann = await room.attach("ann", reads=False)
        cell = await ann.execute("print('once')")
        await room.run("")
        (first,) = await drained(ann.attachment.follow(), 1)
        await ann.leave()
        again = await room.attach("ann")
        await again.done(cell)
        assert again.got[0] is first
        assert again.stdout(cell) == "once\n"

    on_gateway(test)


def test_another_client_in_between_takes_nothing_from_who_comes_back(on_gateway: OnGateway) -> None:
    async def test(room: Room) -> None:
        ann = await room.attach("ann")
        await ann.leave()
        ben = await room.attach("ben")
        cell = await ben.execute("print('seen by both')")
        await ben.done(cell)
        back = await room.attach("ann")
        await back.until(lambda: "idle" in back.states(cell))
        assert back.stdout(cell) == "seen by both\n"

    on_gateway(test)


def test_the_same_client_again_replaces_the_older_connection(on_gateway: OnGateway) -> None:
    async def test(room: Room) -> None:
        older = await room.attach("ann")
        newer = await room.attach("ann")
        assert (await older.ended()).reason == "replaced"
        cell = await newer.execute("print('newer')")
        await newer.done(cell)
        await older.leave()
        assert not older.got
        assert room.gateway.services.attachments.connections(room.session.id) == 1

    on_gateway(test)


def test_a_reader_that_is_stuck_is_cut_and_comes_back_to_what_is_kept(on_gateway: OnGateway) -> None:
    async def test(room: Room) -> None:
        stuck, ben = await room.attach("ann", reads=False), await room.attach("ben")
        reading = stuck.attachment.follow()
        cell = await stuck.execute("print('begun', flush=True)\n" + FLOOD)
        await anext(reading)
        assert (await stuck.ended()).reason == "slow"
        await ben.until(lambda: "idle" in ben.states(cell))
        assert len(ben.stdout(cell)) == 60 * 50_001 + 6, "nobody else is disturbed"
        await stuck.leave()
        back = await room.attach("ann")
        assert (await back.done(cell))["status"] == "ok"
        assert "are not kept for it" in text_of(back.got[:1], "") + back.stdout(cell)

    on_gateway(test)


def test_a_flood_with_nobody_attached_stays_bounded(on_gateway: OnGateway) -> None:
    async def test(room: Room) -> None:
        await (await room.attach("ann")).leave()
        await room.run(FLOOD)
        ring = audience_of(room).ring
        assert 0 < ring.size_bytes <= room.gateway.services.settings.attach_replay_bytes
        back = await room.attach("ann")
        cell = await back.execute("print('after')")
        await back.done(cell)
        assert back.stdout(cell).endswith("after\n")

    on_gateway(test)


def test_a_thousand_connects_and_disconnects_leave_nothing(on_gateway: OnGateway) -> None:
    async def test(room: Room) -> None:
        attachments = room.gateway.services.attachments
        for number in range(1_000):
            await (await room.attach(f"client{number}", reads=number % 100 == 0)).leave()
        audience = audience_of(room)
        assert attachments.connections(room.session.id) == 0
        assert len(audience._cursors) <= MOST_CURSORS
        await asyncio.sleep(0)
        assert not audience._waiting
        room.gateway.clock.advance(room.gateway.services.settings.attach_keep_seconds + 1)
        await room.gateway.services.upkeep.sweep()
        kept = weakref.ref(audience)
        del audience
        room.clients.clear()
        gc.collect()
        assert kept() is None

    on_gateway(test)


def test_who_only_looks_is_no_activity(on_gateway: OnGateway) -> None:
    async def test(room: Room) -> None:
        before = (await room.gateway.show(room.session)).last_activity_at
        room.gateway.clock.advance(1)
        ann = await room.attach("ann")
        await ann.reply(await ann.send("shell", "kernel_info_request", {}), "kernel_info_reply")
        await ann.reply(await ann.send("shell", "complete_request", {"code": "pri", "cursor_pos": 3}), "complete_reply")
        assert (await room.gateway.show(room.session)).last_activity_at == before
        await ann.done(await ann.execute("1"))
        assert (await room.gateway.show(room.session)).last_activity_at > before

    on_gateway(test)
