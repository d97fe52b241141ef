"""Opening, requests, fan-out, failure and closing of a hub; kernels are real processes."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kernels.errors import DeadlineExceeded, Death, KernelDied, SandboxFailed
from kernels.execution import hub as hub_module
from kernels.execution.execution import execute
from kernels.execution.hub import Hub
from kernels.execution.outputs import OutputCaps
from kernels.oci.sockets import dial_in
from kernels.wire.client_request import check_client_request, prepare_cell
from kernels.wire.connection import KernelConnection
from kernels.wire.message import Message
from tests.integration.kernels.execution.running_kernel import Runner, RunningKernel, with_hub

MISBEHAVING = str(Path(__file__).parent / "misbehaving_kernel.py")
OnKernel = Callable[[Callable[[Runner], Any]], Any]
Start = Callable[..., RunningKernel]


def descriptors() -> set[str]:
    return {str(fd.readlink()) for fd in Path("/proc/self/fd").iterdir() if fd.is_symlink()}


def test_the_kernel_has_described_itself_once_the_hub_is_open(on_kernel: OnKernel) -> None:
    async def scenario(runner: Runner) -> None:
        assert runner.hub.kernel_info["language_info"]["name"] == "python"

    on_kernel(scenario)


def test_a_hub_waits_for_a_kernel_that_has_not_bound_its_sockets(start: Start) -> None:
    async def scenario(runner: Runner) -> None:
        assert (await runner.run("print(6 * 7)")).stdout == "42\n"

    asyncio.run(with_hub(start(), scenario))


def test_a_kernel_that_is_busy_can_be_taken_up(kernel: RunningKernel) -> None:
    """The kernel is busy until the second hub is open: one that waited for it to be idle would wait for ever."""
    begun, opened = Path(kernel.directory, "begun"), Path(kernel.directory, "opened")
    wait = f"while not os.path.exists({str(opened)!r}): time.sleep(0.01)"
    busy = f"import os, time; open({str(begun)!r}, 'x').close()\n{wait}"

    async def leave(runner: Runner) -> None:
        running = asyncio.create_task(runner.run(busy))
        async with asyncio.timeout(120):
            while not begun.exists():
                await asyncio.sleep(0.01)
        running.cancel()

    async def take_up(runner: Runner) -> None:
        opened.touch()
        assert (await runner.run("print('after')")).stdout == "after\n"

    asyncio.run(with_hub(kernel, leave))
    asyncio.run(with_hub(kernel, take_up))


def test_no_first_output_is_lost(kernel: RunningKernel) -> None:
    async def first(runner: Runner) -> None:
        outcome = await runner.run("print('first')")
        assert outcome.stdout == "first\n"

    for _ in range(10):
        asyncio.run(with_hub(kernel, first))


def test_every_subscriber_gets_every_message_in_order_also_when_another_fails(on_kernel: OnKernel) -> None:
    async def scenario(runner: Runner) -> None:
        heard: list[list[tuple[str, str]]] = [[], []]

        def broken(_channel: str, _message: Message) -> None:
            raise RuntimeError("a subscriber's mistake")

        def hear(to: list[tuple[str, str]]) -> Callable[[], None]:
            return runner.hub.subscribe(lambda _channel, message: to.append((message.msg_type, message.parent_id)))

        stop_broken = runner.hub.subscribe(broken)
        stops = [hear(to) for to in heard]
        await runner.run("print('x')")
        for stop in (stop_broken, *stops):
            stop()
        await runner.run("print('y')")
        assert heard[0] == heard[1]
        ran = next(parent for kind, parent in heard[0] if kind == "execute_input")
        published = [kind for kind, parent in heard[0] if parent == ran and kind != "execute_reply"]
        # ipykernel may send what one print wrote in more than one message.
        assert [kind for kind, _ in itertools.groupby(published)] == ["status", "execute_input", "stream", "status"]

    on_kernel(scenario)


def test_a_clients_request_is_answered_under_its_own_header(on_kernel: OnKernel) -> None:
    async def scenario(runner: Runner) -> None:
        about = {"msg_id": "theirs", "msg_type": "complete_request", "session": "ann", "version": "5.3"}
        header = json.dumps({**about, "date": "2026-01-02T03:04:05.678901Z"}).encode()
        answered: asyncio.Future[Message] = asyncio.get_running_loop().create_future()

        def hear(channel: str, message: Message) -> None:
            if channel == "shell" and message.parent_session == "ann":
                answered.set_result(message)

        stop = runner.hub.subscribe(hear)
        runner.hub.forward(check_client_request("shell", header, b'{"code": "pri", "cursor_pos": 3}'))
        async with asyncio.timeout(120):
            reply = await answered
        stop()
        assert (reply.msg_type, reply.parent_id) == ("complete_reply", "theirs")
        assert json.loads(reply.parent_json) == json.loads(header)
        assert "print" in reply.content["matches"]

    on_kernel(scenario)


def test_a_clients_cell_ends_as_any_run(on_kernel: OnKernel) -> None:
    async def scenario(runner: Runner) -> None:
        header = b'{"msg_id": "cell", "msg_type": "execute_request", "session": "ann", "version": "5.3"}'
        code, request = prepare_cell(check_client_request("shell", header, b'{"code": "print(1); 1/0"}'))
        assert request.stop_on_error
        outcome = await execute(
            runner.hub,
            code,
            timeout_seconds=60,
            interrupt_grace_seconds=5,
            caps=OutputCaps(),
            interrupt=runner.kernel.interrupt,
            emit=runner.events.append,
            request=request,
        )
        assert (outcome.status, outcome.stdout) == ("error", "1\n")
        assert (await runner.run("print('and what follows runs')")).status == "ok"

    on_kernel(scenario)


def test_a_request_gets_its_own_reply(on_kernel: OnKernel) -> None:
    async def scenario(runner: Runner) -> None:
        asked = [
            runner.hub.request("shell", "is_complete_request", {"code": code}, deadline_seconds=120)
            for code in ("1", "for x in y:")
        ]
        complete, incomplete = await asyncio.gather(*asked)
        assert (complete.content["status"], incomplete.content["status"]) == ("complete", "incomplete")

    on_kernel(scenario)


def test_a_request_that_is_not_answered_ends_with_its_deadline(on_kernel: OnKernel) -> None:
    async def scenario(runner: Runner) -> None:
        with pytest.raises(DeadlineExceeded):
            await runner.hub.request("shell", "no_such_request", {}, deadline_seconds=0.3)

    on_kernel(scenario)


def test_a_failed_hub_fails_who_waits_and_who_comes_later(on_kernel: OnKernel) -> None:
    async def scenario(runner: Runner) -> None:
        death = Death("oom", "no memory")
        waiting = asyncio.create_task(runner.hub.request("shell", "no_such_request", {}, deadline_seconds=120))
        await asyncio.sleep(0.05)
        runner.hub.fail(KernelDied(death))
        with pytest.raises(KernelDied):
            await waiting
        with pytest.raises(KernelDied):
            await runner.hub.request("shell", "kernel_info_request", {}, deadline_seconds=120)
        outcome = await runner.run("1")
        assert (outcome.status, outcome.death, outcome.needs_kill) == ("died", death, False)

    on_kernel(scenario)


def test_a_debugger_answers_though_it_is_loaded_late(on_kernel: OnKernel) -> None:
    async def scenario(runner: Runner) -> None:
        async def ask(command: str, arguments: dict[str, Any]) -> dict[str, Any]:
            content = {"type": "request", "seq": 1, "command": command, "arguments": arguments}
            return (await runner.hub.request("control", "debug_request", content, deadline_seconds=120)).content

        assert (await ask("debugInfo", {}))["body"]["isStarted"] is False
        client = {
            "clientID": "t",
            "adapterID": "",
            "pathFormat": "path",
            "linesStartAt1": True,
            "columnsStartAt1": True,
        }
        assert (await ask("initialize", client))["success"] is True

    on_kernel(scenario)


def test_opening_where_no_kernel_listens_ends_with_its_deadline(short_directory: Path) -> None:
    async def scenario() -> None:
        hub = Hub(KernelConnection(dial_in(str(short_directory)), 7, b"key"))
        try:
            with pytest.raises(DeadlineExceeded):
                await hub.open(0.2)
        finally:
            await hub.aclose()

    asyncio.run(scenario())


def test_opening_ends_at_once_when_the_kernel_is_said_to_be_gone(short_directory: Path) -> None:
    async def scenario() -> None:
        hub = Hub(KernelConnection(dial_in(str(short_directory)), 7, b"key"))
        asyncio.get_running_loop().call_later(0.05, hub.fail, KernelDied(Death("exit", "gone")))
        with pytest.raises(KernelDied):
            await hub.open(30)

    asyncio.run(scenario())


def test_a_link_in_place_of_a_socket_is_not_followed(kernel: RunningKernel) -> None:
    async def scenario() -> None:
        for port in range(1, 5):
            Path(f"{directory}/kernel/g1-{port}").symlink_to(f"{kernel.directory}/kernel/g1-1")
        hub = Hub(KernelConnection(dial_in(directory), 1, kernel.connection.key))
        try:
            with pytest.raises(DeadlineExceeded):
                await hub.open(0.2)
        finally:
            await hub.aclose()

    directory = f"{kernel.directory}/links"
    Path(directory, "kernel").mkdir(parents=True)
    asyncio.run(scenario())


def test_what_does_not_speak_zmq_is_an_error_at_once(start: Start) -> None:
    async def scenario() -> None:
        hub = Hub(start(MISBEHAVING, "speaks_http").connection)
        try:
            with pytest.raises(SandboxFailed, match="ZMTP"):
                await hub.open(20)
        finally:
            await hub.aclose()

    asyncio.run(scenario())


def test_a_path_may_be_longer_than_a_sockets_address(kernel: RunningKernel) -> None:
    async def scenario() -> None:
        hub = Hub(KernelConnection(dial_in(directory), 1, kernel.connection.key))
        try:
            await hub.open(20)
        finally:
            await hub.aclose()

    directory = f"{kernel.directory}/{'d' * 200}"
    Path(directory).mkdir()
    Path(kernel.directory, "kernel").rename(Path(directory, "kernel"))
    try:
        asyncio.run(scenario())
    finally:
        Path(directory, "kernel").rename(Path(kernel.directory, "kernel"))


def test_sockets_that_close_under_a_living_kernel_end_the_run_and_ask_for_a_kill(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hub_module, "LOSS_GRACE_SECONDS", 0.2)

    async def scenario(runner: Runner) -> None:
        outcome = await runner.run("1")
        assert (outcome.status, outcome.needs_kill) == ("died", True)
        assert outcome.death is not None
        assert "closed its connection" in outcome.death.detail

    asyncio.run(with_hub(start(MISBEHAVING, "closes"), scenario))


def test_the_reason_that_the_guest_gives_wins_over_the_closed_sockets(start: Start) -> None:
    async def scenario(runner: Runner) -> None:
        death = Death("signal", "killed", signal="SIGKILL")
        running = asyncio.create_task(runner.run("import os; os.kill(os.getpid(), 9)"))
        await asyncio.to_thread(runner.kernel.process.wait, 10)
        runner.hub.fail(KernelDied(death))
        outcome = await running
        assert (outcome.status, outcome.death, outcome.needs_kill) == ("died", death, False)

    asyncio.run(with_hub(start(), scenario))


def test_a_cancelled_opening_and_a_closed_hub_leave_no_descriptor(kernel: RunningKernel) -> None:
    async def scenario() -> None:
        before = descriptors()
        for _ in range(5):
            hub = Hub(kernel.connection)
            await hub.open(10)
            await hub.aclose()
            for delay in (0, 0.001, 0.004):
                cut = Hub(kernel.connection)
                opening = asyncio.create_task(cut.open(10))
                await asyncio.sleep(delay)
                opening.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await opening
                await cut.aclose()
        async with asyncio.timeout(120):
            while descriptors() != before:
                await asyncio.sleep(0.05)

    asyncio.run(scenario())


def test_a_hub_that_is_opened_costs_no_poll_of_a_tenth_of_a_second(kernel: RunningKernel) -> None:
    async def scenario() -> float:
        hub = Hub(kernel.connection)
        began = time.monotonic()
        try:
            await hub.open(10)
            return time.monotonic() - began
        finally:
            await hub.aclose()

    assert any(asyncio.run(scenario()) < 0.1 for _ in range(40)), "every one waited: that is a poll, not a busy host"


def test_a_listener_whose_queue_is_full_is_tried_again(short_directory: Path) -> None:
    async def scenario() -> None:
        path = f"{short_directory}/g3-1"
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(path)
        listener.listen(0)
        clients = [socket.socket(socket.AF_UNIX) for _ in range(3)]
        for client in clients:
            client.settimeout(0)
            with contextlib.suppress(BlockingIOError):
                client.connect(path)
        hub = Hub(KernelConnection(dial_in(str(short_directory)), 3, b"key"))
        try:
            with pytest.raises(DeadlineExceeded):
                await hub.open(0.2)
        finally:
            await hub.aclose()
            for each in (listener, *clients):
                each.close()

    asyncio.run(scenario())
