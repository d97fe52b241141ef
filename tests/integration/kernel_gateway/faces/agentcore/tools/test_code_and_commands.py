"""executeCode, commands and tasks in a real session: what they answer, and that it is what the session did."""

from __future__ import annotations

import asyncio
import base64
import uuid
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from kernel_gateway.errors import QueueFull, SessionTerminated
from tests.integration.kernel_gateway.faces.agentcore.tools.conftest import Gateway, House, Tools

OnGateway = Callable[[Callable[[Gateway], Awaitable[None]]], None]
PLOT = "import matplotlib.pyplot as plt\nprint('before')\nplt.plot([1, 2])\nplt.show()\n6 * 7"
SEVERAL = "for each in (3, 4):\n    plt.plot([1, each])\n    plt.show()"
ASKED_FOR = "from IPython.display import Image, display\ndisplay(Image('figure-8.png'))"


async def one_session(gateway: Gateway) -> None:
    """One session answers for all: a start costs more than these."""
    tools = Tools(gateway, await gateway.start())
    await code(tools)
    await plots(tools)
    await repeated(tools)
    await in_order(tools)
    await timed(gateway, tools)
    await commands(tools)
    await tasks(tools)


async def code(tools: Tools) -> None:
    printed = await tools("executeCode", code="print('Hello World!!!'); x = 1", language="python")
    seconds = printed["structuredContent"].pop("executionTime")
    assert isinstance(seconds, float)
    assert printed == {
        "content": [{"type": "text", "text": "Hello World!!!"}],
        "isError": False,
        "structuredContent": {"stdout": "Hello World!!!", "stderr": "", "exitCode": 0},
    }
    assert await tools.text("executeCode", code="x + 1") == "2"
    assert await tools.text("executeCode", code="print('10%\\r20%\\r\\nend\\r\\n')") == "20%\nend\n"
    failed = await tools("executeCode", code="print('hi'); 1 / 0")
    first, second = (block["text"] for block in failed["content"])
    assert (first, failed["isError"], failed["structuredContent"]["exitCode"]) == ("hi", True, 1)
    assert second.endswith("ZeroDivisionError: division by zero")
    assert "\x1b" not in second
    assert failed["structuredContent"]["stderr"] == second
    assert (await tools("executeCode", code=""))["content"] == [{"type": "text", "text": ""}]
    warned = await tools("executeCode", code="import sys; print('w', file=sys.stderr)")
    assert (warned["isError"], warned["structuredContent"]["stderr"], warned["content"][0]["text"]) == (False, "w", "w")


async def plots(tools: Tools) -> None:
    """Saved as files, each once, and none over another; what `display` is asked for is a block."""
    taken = {"path": "figure-7.png", "text": "somebody's own"}
    await tools("writeFiles", content=[taken])
    for _ in range(2):  # the same plot twice is the same file
        plotted = await tools("executeCode", code=PLOT)
        said = "<Figure size 640x480 with 1 Axes> (saved as figure-8.png)"
        assert [block["text"] for block in plotted["content"]] == ["before", said, "42"], plotted["content"]
        assert plotted["structuredContent"]["stdout"] == f"before\n{said}\n42"
    read = (await tools("readFiles", paths=["figure-8.png", "figure-7.png"]))["content"]
    assert base64.b64decode(read[0]["resource"]["blob"]).startswith(b"\x89PNG")
    assert read[1]["resource"]["text"] == "somebody's own"
    several = await tools("executeCode", code=SEVERAL)
    assert [block["text"].rpartition(" (")[2] for block in several["content"]] == [
        "saved as figure-9.png)",
        "saved as figure-10.png)",
    ]
    await tools(
        "writeFiles", content=[{"path": f"{name}/in", "text": ""} for name in ("figure-11.png", "image-12.gif")]
    )
    await tools("writeFiles", content=[{"path": "figure-999999999.png", "text": ""}])
    for number in (1, 2):
        (last,) = (await tools("executeCode", code=f"plt.plot([7, {number}])\nplt.show()"))["content"]
        assert last["text"].endswith(f"(saved as figure-{999_999_999 + number}.png)"), last
    (block,) = (await tools("executeCode", code=ASKED_FOR))["content"]
    assert (block["type"], block["mimeType"]) == ("image", "image/png")
    assert base64.b64decode(block["data"]).startswith(b"\x89PNG")
    quiet = await tools("executeCode", code="figure = plt.figure(); plt.close(figure)")
    assert [block["type"] for block in quiet["content"]] == ["text"]


async def repeated(tools: Tools) -> None:
    await tools("executeCode", code="counter = 0")
    same = [tools("executeCode", key="one", code="counter += 1; counter") for _ in range(4)]
    assert {answer["content"][0]["text"] for answer in await asyncio.gather(*same)} == {"1"}
    assert await tools.text("executeCode", code="counter") == "1"
    assert "idempotency key" in (await tools("executeCode", key="one", code="counter"))["content"][0]["text"]


async def in_order(tools: Tools) -> None:
    await tools("executeCode", code="import time; order = []")
    calls = [tools("executeCode", code=f"time.sleep(0.05); order.append({each})") for each in range(5)]
    await asyncio.gather(*calls)
    assert await tools.text("executeCode", code="order") == "[0, 1, 2, 3, 4]"


async def timed(gateway: Gateway, tools: Tools) -> None:
    """By the service's clock, which only this test turns."""
    code = "import os, time\nopen('begun', 'w').close()\nwhile not os.path.exists('go'): time.sleep(0.05)"
    running = asyncio.create_task(tools("executeCode", code=code))
    while (await tools("executeCommand", command="test -e begun"))["isError"]:
        await asyncio.sleep(0.02)
    gateway.clock.advance(8.13)
    await tools("executeCommand", command="touch go")
    assert (await running)["structuredContent"]["executionTime"] == pytest.approx(8.13, abs=0.001)


async def commands(tools: Tools) -> None:
    done = await tools("executeCommand", command="echo 'Hello world!'")
    assert (await tools("executeCommand", command="python -c 'print(6 * 7)'"))["structuredContent"][
        "stdout"
    ] == "42\r\n"
    assert done["content"] == [{"type": "text", "text": "Hello world!\r\n"}]
    about = done["structuredContent"]
    assert (about["stdout"], about["stderr"], about["exitCode"], done["isError"]) == ("Hello world!\r\n", "", 0, False)
    mixed = "for n in 1 2 3; do echo out$n; echo err$n >&2; done; exit 3"
    failed = await tools("executeCommand", command=mixed)
    text = "".join(f"out{n}\r\nerr{n}\r\n" for n in (1, 2, 3))
    assert failed["content"] == [{"type": "text", "text": text}], "both streams are one, in order"
    about = failed["structuredContent"]
    assert (about["stdout"], about["stderr"], about["exitCode"], failed["isError"]) == ("", text, 3, True)
    unknown = await tools("executeCommand", command="no-such-program")
    assert unknown["structuredContent"]["exitCode"] == 127
    assert unknown["content"][0]["text"].endswith("line 1: no-such-program: command not found\r\n")
    assert await tools.error("executeCommand", command="exit 1") == "The command ended with exit code 1"
    assert "write a script with writeFiles" in await tools.error("executeCommand", command="#" * 131_072)


async def tasks(tools: Tools) -> None:
    started = await tools("startCommandExecution", command="echo begun; sleep 60")
    assert started["content"][0]["text"] == "Successfully started a command execution task"
    about = started["structuredContent"]
    task_id = about.pop("taskId")
    assert uuid.UUID(task_id).version == 4
    assert str(uuid.UUID(task_id)) == task_id
    assert about == {"taskStatus": "submitted", "stdout": "", "stderr": ""}
    working = await until(tools, task_id, lambda about: about["stdout"] != "")
    assert working["content"] == [{"type": "text", "text": "Task is working"}]
    assert working["structuredContent"] == {"taskStatus": "working", "stdout": "begun\r\n", "stderr": ""}
    stopped = await tools("stopTask", taskId=task_id)
    assert stopped == {
        "content": [{"type": "text", "text": "Successfully canceled a command execution task"}],
        "isError": False,
    }
    canceled = await tools("getTask", taskId=task_id)
    assert (canceled["isError"], canceled["structuredContent"]["taskStatus"]) == (False, "canceled")
    again = await tools.error("stopTask", taskId=task_id)
    assert again == "Task cannot be canceled (current status: TaskStatus.CANCELED)"
    for command, status, code in (("echo out", "completed", 0), ("echo out; exit 7", "failed", 7)):
        task_id = (await tools("startCommandExecution", command=command))["structuredContent"]["taskId"]
        ended = await until(tools, task_id, lambda about: about["taskStatus"] != "working")
        about = ended["structuredContent"]
        assert (about["taskStatus"], about["exitCode"], ended["isError"]) == (status, code, code != 0)
        assert about["stderr" if code else "stdout"] == "out\r\n"
        words = f"Task cannot be canceled (current status: TaskStatus.{status.upper()})"
        assert await tools.error("stopTask", taskId=task_id) == words
    for unknown in ("x", str(uuid.uuid4()), "../status", "é" * 5000):
        assert (await tools.error("getTask", taskId=unknown)).startswith("Task not found: ")
        assert (await tools.error("stopTask", taskId=unknown)).startswith("Task not found: ")


async def until(tools: Tools, task_id: str, holds: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    async with asyncio.timeout(120):
        while True:
            answer = await tools("getTask", taskId=task_id)
            if holds(answer["structuredContent"]):
                return answer
            await asyncio.sleep(0.05)


def test_code_commands_and_tasks(on_gateway: OnGateway) -> None:
    on_gateway(one_session)


async def ends(gateway: Gateway) -> None:
    tools = Tools(gateway, await gateway.start())
    died = await tools("executeCode", code="print('so far')\nimport os, time\ntime.sleep(0.5)\nos._exit(3)")
    assert (died["isError"], died["structuredContent"]["exitCode"]) == (True, 3)
    assert died["content"][0]["text"] == "so far"
    assert "exited with status 3" in died["content"][1]["text"]
    assert died["structuredContent"]["stderr"] == died["content"][1]["text"]
    endless = asyncio.create_task(tools("executeCode", code="open('spins', 'w').close()\nwhile True: pass"))
    while (await tools("executeCommand", command="test -e spins"))["isError"]:
        await asyncio.sleep(0.02)
    await gateway.services.sessions.interrupt(gateway.me, tools.session_id)
    interrupted = await endless
    assert (interrupted["isError"], interrupted["structuredContent"]["exitCode"]) == (True, 130)
    assert "KeyboardInterrupt" in interrupted["content"][0]["text"]
    await gateway.services.sessions.stop(gateway.me, tools.session_id)
    for name, arguments in (
        ("executeCode", {"code": "1"}),
        ("executeCommand", {"command": "true"}),
        ("getTask", {"taskId": "x"}),
        ("writeFiles", {"content": [{"path": "a", "text": ""}]}),
        ("listFiles", {}),
    ):
        with pytest.raises(SessionTerminated, match="the session has ended"):
            await tools(name, **arguments)


def test_ends_that_code_did_not_choose_and_a_session_that_is_over(on_gateway: OnGateway) -> None:
    on_gateway(ends)


async def time_runs_out(gateway: Gateway) -> None:
    tools = Tools(gateway, await gateway.start())
    slow = await tools("executeCode", code="kept = 1\nprint('so far')\nwhile True: pass")
    assert (slow["isError"], slow["structuredContent"]["exitCode"]) == (True, 124)
    assert slow["content"][0]["text"] == "so far"
    assert "Its variables are kept" in slow["content"][1]["text"]
    assert await tools.text("executeCode", code="kept") == "1"
    command = await tools("executeCommand", command="echo so far; sleep 60")
    assert (command["isError"], command["structuredContent"]["stdout"]) == (True, "")
    assert command["content"][0]["text"] == "so far\r\nThe command ran longer than it may and was ended\r\n"


async def little_time(house: House) -> None:
    async with house.gateway(execution_timeout_seconds=1.0, command_timeout_seconds=1.0) as gateway:
        await time_runs_out(gateway)


def test_what_runs_too_long_says_so_and_keeps_what_it_printed(house: House) -> None:
    asyncio.run(little_time(house))


def test_code_without_a_place_is_refused_before_it_is_queued(house: House) -> None:
    """Another call may take the last place after this one was let in."""

    async def test() -> None:
        async with house.gateway(queue_length=1) as gateway:
            session = await gateway.start()
            tools = Tools(gateway, session)
            running = await gateway.submit(session, "import time; time.sleep(600)")
            await gateway.until_running(session, running)
            waiting = await gateway.submit(session, "'in the only place'")
            with pytest.raises(QueueFull):
                await tools("executeCode", code="print('never')", language="python")
            await gateway.services.executions.interrupt(gateway.me, session.id, running.id)
            assert (await gateway.services.executions.wait(gateway.me, session.id, waiting.id)).status == "ok"

    asyncio.run(test())


def test_an_environment_may_show_all_images_as_blocks(house: House, tmp_path: Path) -> None:
    declared = tmp_path / "environments.toml"
    declared.write_text('[python]\nfigures = "blocks"\n')

    async def test() -> None:
        async with house.gateway(environments_file=str(declared)) as gateway:
            tools = Tools(gateway, await gateway.start())
            plotted = await tools("executeCode", code=PLOT)
            assert [block["type"] for block in plotted["content"]] == ["text", "image", "text"]
            assert (await tools("listFiles"))["content"] == []

    asyncio.run(test())
