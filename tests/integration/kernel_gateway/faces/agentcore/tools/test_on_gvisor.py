"""The same answers from a sandbox of gVisor: what the guest does for the tools leans on the system below it."""

from __future__ import annotations

import asyncio

import pytest

from kernel_gateway.faces.agentcore.tools import Arguments, FileContent
from tests.integration.kernel_gateway.faces.agentcore.tools.conftest import Gateway, House, Tools


async def on_gvisor(house: House) -> None:
    async with house.gateway(runtime="runsc") as gateway:
        await tried(gateway)


async def tried(gateway: Gateway) -> None:
    session = await gateway.start()
    assert (await gateway.show(session)).runtime == "runsc"
    tools = Tools(gateway, session)
    content = [FileContent(f"many/{each % 10}/{each}", text=str(each)) for each in range(1_000)]
    content.append(FileContent("many", text="taken"))
    answer = await tools.call("writeFiles", Arguments(content=content))
    assert answer["content"][0]["text"].startswith("Wrote 1,000 of 1,001 files: ")
    read = await tools("readFiles", paths=["many/9/999", "missing"])
    assert [block["resource"]["text"] for block in read["content"]] == ["999"]
    mixed = await tools("executeCommand", command="for n in 1 2; do echo out$n; echo err$n >&2; done; exit 3")
    assert mixed["structuredContent"]["stderr"] == "out1\r\nerr1\r\nout2\r\nerr2\r\n"
    task = (await tools("startCommandExecution", command="sleep 60"))["structuredContent"]["taskId"]
    await tools("executeCode", code="x = 1")
    assert await tools.text("executeCode", code="print('x' in globals())", clearContext=True) == "False"
    assert await tools.text("getTask", taskId=task) == "Task is working", "a blank kernel ends no task"
    assert await tools.text("stopTask", taskId=task) == "Successfully canceled a command execution task"


@pytest.mark.sample("doors")
def test_the_tools_on_gvisor(house: House) -> None:
    asyncio.run(on_gvisor(house))
