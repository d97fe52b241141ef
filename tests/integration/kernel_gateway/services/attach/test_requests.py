"""What attached clients ask beside plain cells: errors and what follows them, stdin, comms, interrupts, nonsense."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from dataclasses import replace

import pytest

from kernel_gateway.errors import InvalidRequest, PayloadTooLarge
from kernel_gateway.services.attach.attachments import Incoming
from tests.integration.kernel_gateway.services.attach.client import Room, incoming

OnGateway = Callable[[Callable[[Room], Awaitable[None]]], None]
ECHO = """
def opened(comm, message):
    comm.on_msg(lambda message: comm.send({"size": len(message["buffers"][0])}, buffers=[bytes(message["buffers"][0])]))
get_ipython().kernel.comm_manager.register_target("echo", opened)
"""
ENDLESS = """
import time
def endless(comm, message):
    print("begun", flush=True)
    while True:
        time.sleep(0.01)
get_ipython().kernel.comm_manager.register_target("endless", endless)
"""
GOOD = incoming("shell", "kernel_info_request", {}, session="ann", msg_id="m")


def test_what_follows_a_cell_that_fails_is_aborted_for_its_client_alone(on_gateway: OnGateway) -> None:
    async def test(room: Room) -> None:
        ann, ben = await room.attach("ann"), await room.attach("ben")
        fails = await ann.execute("import time; time.sleep(0.3); 1/0")
        follows = await ann.execute("print('never')")
        bens = await ben.execute("print('ben')")
        assert (await ann.done(fails))["ename"] == "ZeroDivisionError"
        assert (await ann.done(follows))["status"] == "aborted"
        assert (await ben.done(bens))["status"] == "ok"
        assert [each.status for each in await room.recorded(3)] == ["error", "rejected", "ok"]

    on_gateway(test)


def test_all_cells_of_a_page_that_follow_one_that_fails_at_once_are_aborted(on_gateway: OnGateway) -> None:
    async def test(room: Room) -> None:
        ann = await room.attach("ann")
        fails = await ann.execute("input(); 1/0", allow_stdin=True)
        follow = [await ann.execute("print('never')") for _ in range(20)]
        await ann.until(lambda: bool(ann.of(fails, "input_request")))
        await ann.send("stdin", "input_reply", {"value": "all are sent", "status": "ok"})
        assert (await ann.done(fails))["status"] == "error"
        assert [(await ann.done(each))["status"] for each in follow] == ["aborted"] * 20
        assert (await ann.done(await ann.execute("1")))["status"] == "ok", (
            "what is sent after the failure is known runs"
        )

    on_gateway(test)


def test_cells_that_may_fail_run_on(on_gateway: OnGateway) -> None:
    async def test(room: Room) -> None:
        ann = await room.attach("ann")
        await ann.execute("import time; time.sleep(0.2); 1/0", stop_on_error=False)
        follows = await ann.execute("print('goes on')")
        await ann.done(follows)
        assert ann.stdout(follows) == "goes on\n"

    on_gateway(test)


def test_a_silent_request_is_recorded_and_shows_nothing(on_gateway: OnGateway) -> None:
    async def test(room: Room) -> None:
        ann = await room.attach("ann")
        silent = await ann.execute("hidden = 7", silent=True, user_expressions={"it": "hidden"})
        reply = await ann.done(silent)
        assert reply["user_expressions"]["it"]["data"]["text/plain"] == "7"
        assert not ann.of(silent, "execute_input")
        (last,) = await room.recorded(1)
        assert (last.code, last.status) == ("hidden = 7", "ok")

    on_gateway(test)


def test_input_is_asked_of_the_client_that_runs_the_cell(on_gateway: OnGateway) -> None:
    async def test(room: Room) -> None:
        ann, ben = await room.attach("ann"), await room.attach("ben")
        cell = await ann.execute("print('hello', input('who? '))", allow_stdin=True)
        await ann.until(lambda: bool(ann.of(cell, "input_request")))
        assert ann.of(cell, "input_request")[0].channel == "stdin"
        assert ann.of(cell, "input_request")[0].message.content["prompt"] == "who? "
        await ann.send("stdin", "input_reply", {"value": "world", "status": "ok"})
        await ann.done(cell)
        assert ann.stdout(cell) == "hello world\n"
        assert not ben.of(cell, "input_request")

    on_gateway(test)


def test_a_client_that_comes_back_is_still_asked_for_input(on_gateway: OnGateway) -> None:
    async def test(room: Room) -> None:
        ann = await room.attach("ann", reads=False)
        cell = await ann.execute("print(input())", allow_stdin=True)
        await ann.leave()
        back = await room.attach("ann")
        await back.until(lambda: bool(back.of(cell, "input_request")))
        await back.send("stdin", "input_reply", {"value": "late", "status": "ok"})
        await back.done(cell)
        assert back.stdout(cell) == "late\n"

    on_gateway(test)


def test_a_cell_that_asks_a_client_that_is_gone_for_good_keeps_nobody_waiting(on_gateway: OnGateway) -> None:
    async def test(room: Room) -> None:
        ann, ben = await room.attach("ann"), await room.attach("ben")
        cell = await ann.execute("input()", allow_stdin=True)
        await ann.until(lambda: bool(ann.of(cell, "input_request")))
        await ann.leave()
        await room.gateway.services.upkeep.sweep()
        waits = await ben.execute("print('at last')")
        assert room.state() == "busy"
        room.gateway.clock.advance(room.gateway.services.settings.attach_keep_seconds + 1)
        await room.gateway.services.upkeep.sweep()
        await ben.done(waits)
        assert ben.stdout(waits) == "at last\n"

    on_gateway(test)


def test_nobody_is_interrupted_for_a_cell_that_waited_for_input_and_has_ended(on_gateway: OnGateway) -> None:
    async def test(room: Room) -> None:
        ann, ben = await room.attach("ann"), await room.attach("ben")
        cell = await ann.execute("input()", allow_stdin=True)
        await ann.until(lambda: bool(ann.of(cell, "input_request")))
        await ann.leave()
        room.gateway.clock.advance(room.gateway.services.settings.attach_keep_seconds + 1)
        await room.gateway.services.upkeep.sweep()
        await ben.until(lambda: "idle" in ben.states(cell))
        later = await ben.execute("import time; print('begun', flush=True); time.sleep(2); print('whole')")
        await ben.until(lambda: "begun" in ben.stdout(later))
        await room.gateway.services.upkeep.sweep()
        assert (await ben.done(later))["status"] == "ok"

    on_gateway(test)


def test_a_cell_that_the_kernel_would_drop_without_a_word_is_answered_and_blocks_nobody(on_gateway: OnGateway) -> None:
    async def test(room: Room) -> None:
        ann = await room.attach("ann")
        dropped = await ann.execute("1", user_expressions={}, odd=json.loads("[" * 900 + "]" * 900))
        dated = incoming(
            "shell", "execute_request", {"code": "1"}, session="ann", msg_id="d", date="2026-13-01T00:00:00Z"
        )
        await ann.attachment.send(dated)
        answers = incoming("shell", "execute_request", {"code": "1"}, session="ann", msg_id="a")
        await ann.attachment.send(replace(answers, parent_header=b'{"date": "2026-13-01T00:00:00Z"}'))
        assert (await ann.done(dropped))["ename"] == "InvalidRequest"
        assert (await ann.done("d"))["ename"] == "InvalidRequest"
        assert (await ann.done("a"))["status"] == "ok"
        assert await room.run("print('next')") == "next\n"

    on_gateway(test)


def test_a_cell_that_cannot_be_stored_for_a_reason_of_ours_is_answered(on_gateway: OnGateway) -> None:
    async def test(room: Room) -> None:
        ann, database = await room.attach("ann"), room.gateway.services.database
        refuse = "CREATE TRIGGER refuse BEFORE INSERT ON executions BEGIN SELECT RAISE(ABORT, 'none today'); END"
        await database.run(lambda c: c.exec_driver_sql(refuse))
        try:
            assert (await ann.done(await ann.execute("1")))["ename"] == "InternalError"
        finally:
            await database.run(lambda c: c.exec_driver_sql("DROP TRIGGER refuse"))
        assert (await ann.done(await ann.execute("1")))["status"] == "ok"

    on_gateway(test)


def test_no_other_message_passes_for_the_end_of_a_cell(on_gateway: OnGateway) -> None:
    async def test(room: Room) -> None:
        ann, ben = await room.attach("ann"), await room.attach("ben")
        await ann.send("control", "usage_request", {}, msg_id="twice")
        await ann.reply("twice", "usage_reply")
        await ann.send(
            "shell", "execute_request", {"code": "import time; time.sleep(3); print('whole')"}, msg_id="twice"
        )
        with pytest.raises(InvalidRequest, match="its own"):
            await ben.send("control", "usage_request", {}, msg_id="twice", session="ann")
        assert (await ann.done("twice"))["status"] == "ok"
        assert ann.stdout("twice") == "whole\n"

    on_gateway(test)


def test_comm_messages_carry_buffers_both_ways(on_gateway: OnGateway) -> None:
    async def test(room: Room) -> None:
        ann = await room.attach("ann")
        await room.run(ECHO)
        await ann.send("shell", "comm_open", {"comm_id": "c", "target_name": "echo", "data": {}})
        asked = incoming("shell", "comm_msg", {"comm_id": "c", "data": {}}, session="ann", msg_id="with-buffers")
        payload = bytes(range(256)) * 10
        await ann.attachment.send(replace(asked, buffers=(payload,)))
        await ann.until(lambda: bool(ann.of("with-buffers", "comm_msg")))
        answer = ann.of("with-buffers", "comm_msg")[0].message
        assert answer.content["data"] == {"size": len(payload)}
        assert bytes(answer.buffers[0]) == payload

    on_gateway(test)


def test_an_interrupt_ends_what_a_widget_called(on_gateway: OnGateway) -> None:
    async def test(room: Room) -> None:
        ann = await room.attach("ann")
        await room.run(ENDLESS)
        opened = await ann.send("shell", "comm_open", {"comm_id": "e", "target_name": "endless", "data": {}})
        await ann.until(lambda: "begun" in ann.stdout(opened))
        await ann.send("control", "interrupt_request", {})
        await ann.until(lambda: "idle" in ann.states(opened))
        assert await room.run("print('alive')") == "alive\n"

    on_gateway(test)


def test_an_interrupt_ends_the_cell_that_runs(on_gateway: OnGateway) -> None:
    async def test(room: Room) -> None:
        ann = await room.attach("ann")
        cell = await ann.execute("import time\nprint('begun', flush=True)\ntime.sleep(60)")
        await ann.until(lambda: "begun" in ann.stdout(cell))
        assert room.state() == "busy"
        asked = await ann.send("control", "interrupt_request", {})
        assert (await ann.reply(asked, "interrupt_reply"))["status"] == "ok"
        assert (await ann.done(cell))["ename"] == "KeyboardInterrupt"

    on_gateway(test)


def test_who_attaches_while_something_runs_learns_what_the_kernel_is(on_gateway: OnGateway) -> None:
    async def test(room: Room) -> None:
        running = await room.gateway.submit(room.session, "import time; time.sleep(60)")
        await room.gateway.until_running(room.session, running)
        ann = await room.attach("ann")
        asked = await ann.send("shell", "kernel_info_request", {})
        assert (await ann.reply(asked, "kernel_info_reply"))["language_info"]["name"] == "python"
        debug = await ann.send("control", "debug_request", {"type": "request", "command": "debugInfo", "seq": 1})
        await ann.reply(debug, "debug_reply")
        await room.gateway.services.sessions.interrupt(room.gateway.me, room.session.id)
        await room.gateway.services.executions.wait(room.gateway.me, room.session.id, running.id)

    on_gateway(test)


@pytest.mark.parametrize(
    "message",
    [
        replace(GOOD, channel="nowhere"),
        replace(GOOD, channel="iopub"),
        replace(GOOD, header=b"{"),
        replace(GOOD, header=b"[]"),
        replace(GOOD, header=b'{"msg_id": 1, "msg_type": "x", "session": "s", "version": "5.3"}'),
        replace(GOOD, header=GOOD.header.replace(b"5.3", b"4.1")),
        replace(GOOD, header=GOOD.header.replace(b'"5.3"', b"5")),
        replace(GOOD, header=GOOD.header.replace(b"ann", b"\\ud800")),
        replace(GOOD, header=GOOD.header.replace(b'"ann"', b"1e400")),
        replace(GOOD, header=GOOD.header.replace(b'"ann"', b'{"first": "ann"}')),
        replace(GOOD, header=b'{"msg_id": "m", "msg_type": "comm_msg", "session": "s", "x": "' + b"x" * 20_000 + b'"}'),
        replace(GOOD, content=b"null"),
        replace(GOOD, content=b'{"a": ' + b"[" * 50_000 + b"]" * 50_000 + b"}"),
        replace(GOOD, metadata=b"\xff"),
        replace(GOOD, parent_header=b'"text"'),
        replace(GOOD, buffers=(b"",) * 1_001),
        incoming("shell", "connect_request", {}, session="ann", msg_id="m"),
        incoming("shell", "input_reply", {"value": ""}, session="ann", msg_id="m"),
        incoming("stdin", "execute_request", {"code": "1"}, session="ann", msg_id="m"),
        incoming("control", "execute_request", {"code": "1"}, session="ann", msg_id="m"),
    ],
)
def test_nonsense_is_refused_counted_and_harms_nobody(on_gateway: OnGateway, message: Incoming) -> None:
    async def test(room: Room) -> None:
        ann = await room.attach("ann")
        with pytest.raises(InvalidRequest):
            await ann.attachment.send(message)
        assert ann.attachment.refused == 1
        assert (await ann.done(await ann.execute("1")))["status"] == "ok"

    on_gateway(test)


def test_a_message_that_is_too_large_is_refused(on_gateway: OnGateway) -> None:
    async def test(room: Room) -> None:
        ann = await room.attach("ann")
        with pytest.raises(PayloadTooLarge, match="200,000"):
            await ann.execute("x" * 200_001)
        assert (await ann.done(await ann.execute("1")))["status"] == "ok"

    on_gateway(test)


def test_output_too_large_for_clients_is_named_and_what_follows_it_arrives(on_gateway: OnGateway) -> None:
    async def test(room: Room) -> None:
        ann = await room.attach("ann")
        fits = await ann.execute(
            "from IPython.display import display\ndisplay({'text/plain': 'x' * 700_000}, raw=True)"
        )
        await ann.done(fits)
        assert len(ann.of(fits, "display_data")[0].message.content["data"]["text/plain"]) == 700_000
        big = "display({'text/plain': 'x' * 900_000}, raw=True)\nprint('after')"
        cell = await ann.execute("from IPython.display import display\n" + big)
        await ann.done(cell)
        assert "too large for attached clients" in ann.stdout(cell)
        assert ann.stdout(cell).endswith("after\n")
        (last,) = await room.recorded(1)
        assert len(last.outputs[0]["data"]["text/plain"]) == 900_000, "what is recorded is whole"

    on_gateway(test)


@pytest.mark.parametrize(
    ("content", "header"),
    [
        ({"code": 5}, {}),
        ({"code": "1", "silent": "yes"}, {}),
        ({"code": "1", "user_expressions": []}, {}),
        ({"code": "1"}, {"subshell_id": "s"}),
    ],
)
def test_a_cell_that_is_refused_is_answered(
    on_gateway: OnGateway, content: dict[str, object], header: dict[str, str]
) -> None:
    async def test(room: Room) -> None:
        ann = await room.attach("ann")
        cell = await ann.send("shell", "execute_request", content, **header)
        reply = await ann.done(cell)
        assert (reply["status"], reply["ename"]) == ("error", "InvalidRequest")

    on_gateway(test)


def test_a_request_id_that_waits_already_is_refused(on_gateway: OnGateway) -> None:
    async def test(room: Room) -> None:
        ann = await room.attach("ann")
        cell = await ann.execute("import time; time.sleep(0.5); print('one')")
        with pytest.raises(InvalidRequest, match="msg_id"):
            await ann.send("shell", "execute_request", {"code": "print('two')"}, msg_id=cell)
        await ann.done(cell)
        assert ann.stdout(cell) == "one\n"

    on_gateway(test)


def test_the_same_message_once_more_runs_once_more(on_gateway: OnGateway) -> None:
    async def test(room: Room) -> None:
        ann = await room.attach("ann")
        for times in (1, 2):
            await ann.send("shell", "execute_request", {"code": "print('again')"}, msg_id="same")
            await ann.until(lambda times=times: ann.states("same").count("idle") == times)  # type: ignore[misc]
            await ann.until(lambda times=times: len(ann.of("same", "execute_reply")) == times)  # type: ignore[misc]
            await room.run("")
        assert ann.stdout("same") == "again\nagain\n"

    on_gateway(test)


def test_a_client_may_not_speak_in_the_services_own_name(on_gateway: OnGateway) -> None:
    async def test(room: Room) -> None:
        ann = await room.attach("ann")
        running = await room.gateway.submit(room.session, "import time; time.sleep(0.3); print('agent')")
        await ann.until(lambda: any(each.message.msg_type == "execute_input" for each in ann.got))
        seen = next(each.message for each in ann.got if each.message.msg_type == "execute_input")
        session = json.loads(seen.parent_json)["session"]
        with pytest.raises(InvalidRequest, match="session"):
            await ann.send("shell", "complete_request", {"code": ""}, session=session, msg_id=seen.parent_id)
        done = await room.gateway.services.executions.wait(room.gateway.me, room.session.id, running.id)
        assert done.stdout == "agent\n"

    on_gateway(test)
