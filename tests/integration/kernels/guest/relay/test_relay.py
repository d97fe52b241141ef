"""A gateway that goes and another that comes: what ran goes on, once, with the same events, however long it took."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable

import pytest

from kernels.execution.execution import OutputCaps
from kernels.guest.relay.channels import UNREAD_BYTES
from tests.integration.kernels.guest.relay.conftest import Guest, Scenario

OnGuest = Callable[[Scenario], None]
COUNT = "import time\nfor i in range(12):\n    print(i, flush=True)\n    time.sleep(0.1)"
PATIENCE_SECONDS = 120


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not condition():
            await asyncio.sleep(0.02)


def test_an_execution_goes_on_under_the_next_gateway_as_the_same(on_guest: OnGuest) -> None:
    async def scenario(guest: Guest) -> None:
        hub = await guest.come()
        durable = (await guest.run(hub, "ran = 0", "first")).heard
        hub.settle(durable, "first")
        running = asyncio.create_task(guest.run(hub, f"ran += 1\n{COUNT}", "second"))
        await until(lambda: len(guest.events) > 2)
        seen = list(guest.events)
        await guest.leave(running)
        hub = await guest.come(durable)
        assert hub.kernel_info["implementation"] == "ipython"
        outcome = await guest.run(hub, "raise RuntimeError('not sent again')", "second")
        assert (outcome.status, outcome.stdout) == ("ok", "".join(f"{i}\n" for i in range(12)))
        assert guest.events[: len(seen)] == seen
        assert (await guest.run(hub, "print(ran)", "third")).stdout == "1\n"

    on_guest(scenario)


def test_what_ended_while_nobody_was_there_is_told_when_somebody_comes(on_guest: OnGuest) -> None:
    async def scenario(guest: Guest) -> None:
        hub = await guest.come()
        running = asyncio.create_task(guest.run(hub, f"{COUNT}\n1 / 0", "one", timeout=60))
        await until(lambda: bool(guest.events))
        await guest.leave(running)
        await until(lambda: not guest.relay.runs.of("python", 1))
        hub = await guest.come(0)
        # Its time was over long ago; it had ended by then all the same.
        outcome = await guest.run(hub, "", "one", timeout=60, elapsed=10_000)
        assert (outcome.status, outcome.stdout) == ("error", "".join(f"{i}\n" for i in range(12)))
        hub.settle(outcome.heard, "one")
        await until(lambda: guest.relay.store.first == guest.relay.store.next)
        assert guest.relay.runs.describe() == []

    on_guest(scenario)


def test_a_connection_that_breaks_is_made_again_and_nothing_is_missing(on_guest: OnGuest) -> None:
    async def scenario(guest: Guest) -> None:
        hub = await guest.come()
        running = asyncio.create_task(guest.run(hub, COUNT, "one"))
        for shown in (2, 5, 8):
            await until(lambda shown=shown: len(guest.events) > shown)  # type: ignore[misc]
            assert guest.relay.listener is not None
            guest.relay.listener.drop()
        assert (await running).stdout == "".join(f"{i}\n" for i in range(12))
        assert (await guest.run(hub, "print('again')", "two")).stdout == "again\n"

    on_guest(scenario)


def test_a_deadline_ends_code_though_no_gateway_is_there(on_guest: OnGuest) -> None:
    async def scenario(guest: Guest) -> None:
        hub = await guest.come()
        code = "import time\nprint('begun', flush=True)\ntime.sleep(1000)"
        running = asyncio.create_task(guest.run(hub, code, "one", timeout=1.5, grace=60))
        await until(lambda: bool(guest.events))
        await guest.leave(running)
        await until(lambda: not guest.relay.runs.of("python", 1))
        assert guest.source.signals == ["interrupt"]
        hub = await guest.come(0)
        outcome = await guest.run(hub, "", "one", timeout=1.5, elapsed=100)
        assert (outcome.status, outcome.stdout, outcome.needs_kill) == ("timeout", "begun\n", False)
        assert (await guest.run(hub, "print('lives')", "two")).stdout == "lives\n"

    on_guest(scenario)


def test_code_that_does_not_heed_its_deadline_is_killed_by_the_guest(on_guest: OnGuest) -> None:
    async def scenario(guest: Guest) -> None:
        hub = await guest.come()
        code = """
import time
print("begun", flush=True)
while True:
    try:
        time.sleep(1000)
    except KeyboardInterrupt:
        pass
"""
        running = asyncio.create_task(guest.run(hub, code, "one", timeout=3, grace=1))
        await until(lambda: bool(guest.events))
        await guest.leave(running)
        await until(lambda: guest.kernel.process.poll() is not None)
        assert guest.source.signals == ["interrupt", "interrupt", "kill"]
        hub = await guest.come(0)
        running = asyncio.create_task(guest.run(hub, "", "one", timeout=1, elapsed=100))
        await hub.drain(PATIENCE_SECONDS)
        assert hub.ended_by_guest == {"one": "kill"}
        running.cancel()

    on_guest(scenario)


@pytest.mark.parametrize(("why", "status"), [("request", "interrupted"), ("deadline", "timeout")])
def test_why_code_was_interrupted_is_known_to_the_next_gateway(on_guest: OnGuest, why: str, status: str) -> None:
    async def scenario(guest: Guest) -> None:
        hub = await guest.come()
        code = "import time\nprint('begun', flush=True)\ntime.sleep(1000)"
        running = asyncio.create_task(guest.run(hub, code, "one"))
        await until(lambda: bool(guest.events))
        guest.relay.note_interrupt(why)
        await guest.leave(running)  # killed when it had said so, and before the signal took effect
        await guest.kernel.interrupt()
        await until(lambda: not guest.relay.runs.of("python", 1))
        hub = await guest.come(0)
        outcome = await guest.run(hub, "", "one", elapsed=1)
        assert (outcome.status, outcome.stdout) == (status, "begun\n")
        hub.settle(outcome.heard, "one")
        assert (await guest.run(hub, "1 / 0", "two")).status == "error", "it concerned that one alone"

    on_guest(scenario)


def test_a_message_that_interrupts_does_not_wait_behind_requests_that_the_kernel_has_not_read(
    on_guest: OnGuest,
) -> None:
    async def scenario(guest: Guest) -> None:
        async def carry(message: bytes) -> None:
            guest.relay.interrupt("request", message)

        hub = await guest.come()
        code = "import time\nprint('begun', flush=True)\ntime.sleep(1000)"
        running = asyncio.create_task(guest.run(hub, code, "one"))
        await until(lambda: bool(guest.events))
        for _ in range(2_000):  # ZMQ itself reads a thousand for the kernel
            hub.send("shell", "comm_msg", {"comm_id": "none", "data": {"text": "x" * 12_000}})
        await until(lambda: guest.relay.is_full(0))
        reply = await hub.request("control", "interrupt_request", {}, deadline_seconds=PATIENCE_SECONDS, carry=carry)
        assert reply.msg_type == "interrupt_reply"
        assert (await running).status == "interrupted"

    on_guest(scenario)


def test_more_than_is_kept_is_cut_in_the_middle_and_said(on_guest: OnGuest) -> None:
    async def scenario(guest: Guest) -> None:
        guest.relay.store._disk_bytes = guest.relay.store._memory_bytes = 1_500_000
        hub = await guest.come()
        code = """
import time
print("begin", flush=True)
time.sleep(1)
for i in range(400):
    print("x" * 20_000, flush=True)
print("end")
"""
        running = asyncio.create_task(guest.run(hub, code, "one"))
        await until(lambda: bool(guest.events))
        await guest.leave(running)
        await until(lambda: not guest.relay.runs.of("python", 1))
        hub = await guest.come(0)
        outcome = await guest.run(hub, "", "one")
        assert outcome.status == "ok"
        assert outcome.stdout.startswith("begin\n")
        assert outcome.stdout.endswith("x\nend\n")
        assert outcome.truncated.outputs > 1_000_000
        assert "was dropped" in str(outcome.outputs)

    on_guest(scenario)


def test_a_gateway_that_takes_nothing_holds_the_kernel_up_for_a_while_only(on_guest: OnGuest) -> None:
    async def scenario(guest: Guest) -> None:
        hub = await guest.come()
        assert OutputCaps().text_bytes < 12_000_000
        running = asyncio.create_task(guest.run(hub, "for i in range(600): print('x' * 20_000)\nprint('end')", "one"))
        outcome = await running
        assert (outcome.status, outcome.stdout[-4:]) == ("ok", "end\n")
        assert outcome.truncated.outputs == 0

    on_guest(scenario)


def test_a_long_reply_ends_its_run_too(on_guest: OnGuest) -> None:
    async def scenario(guest: Guest) -> None:
        hub = await guest.come()
        outcome = await guest.run(hub, "raise ValueError('x' * 300_000)", "one")
        assert outcome.status == "error"
        assert guest.relay.runs.of("python", 1) == []

    on_guest(scenario)


def test_who_comes_after_the_word_of_the_end_hears_of_the_end(on_guest: OnGuest) -> None:
    async def scenario(guest: Guest) -> None:
        hub = await guest.come()
        guest.kernel.process.kill()
        await until(lambda: bool(guest.relay.lost) and hub.position == guest.relay.store.next - 1)
        durable = hub.position
        await guest.leave()
        hub = await guest.come(durable)
        hub.flow()
        await until(hub._drained.is_set)

    on_guest(scenario)


def test_what_a_kernel_does_not_read_waits_with_the_gateway(on_guest: OnGuest) -> None:
    async def scenario(guest: Guest) -> None:
        hub = await guest.come()
        guest.kernel.process.send_signal(signal.SIGSTOP)
        try:
            for _ in range(300):
                hub.send("shell", "comm_msg", {"comm_id": "none", "data": {"text": "x" * 100_000}})
            await until(lambda: guest.relay.is_full(0))
            await asyncio.sleep(0.5)
            transport = guest.relay._channels._channels[0]._transport
            assert transport is not None
            assert transport.get_write_buffer_size() < UNREAD_BYTES + 1_000_000
            assert hub.unsent_bytes("shell") > 10_000_000
        finally:
            guest.kernel.process.send_signal(signal.SIGCONT)
        assert (await guest.run(hub, "print('read')", "one")).stdout == "read\n"
        assert hub.unsent_bytes("shell") == 0

    on_guest(scenario)
