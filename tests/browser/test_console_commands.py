"""Shell commands that agents run, by the clients' own interfaces, on the page of their session as they run."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from sandcell import Client
from tests.browser.chromium import Page, chromium
from tests.browser.test_console import PANEL, SHOWN, TEXT, sign_in
from tests.browser.test_console_pages import go, press
from tests.browser.test_console_record import PAIRS, choose
from tests.integration.kernel_gateway.faces.agentcore.conftest import Caller, Live
from tests.integration.kernel_gateway.faces.mcp.test_face import Peer
from tests.running_service import RunningService

WAITS = "printf '\\033[?2004hbegun\\n'; until [ -e go ]; do sleep 0.05; done; echo rain > made; echo bad >&2; exit 3"
COMMANDS = "[...document.querySelectorAll('.cell.command')]"
INTERRUPT = "[...document.querySelectorAll('.commands button')].find(each => each.innerText === 'Interrupt').disabled"
STATES = "[...document.querySelectorAll('.cell')].map(each => each.className.replace('cell ', '')).join(', ')"


@pytest.mark.sample("pages")
def test_commands_of_agents_show_as_they_run(service: RunningService, tmp_path: Path) -> None:
    asyncio.run(shows_commands(service, tmp_path))


async def shows_commands(service: RunningService, directory: Path) -> None:
    with service.client() as client:
        key = client.create_key("admin")
    live = Caller(service, key.id, key.secret_access_key or "").start(name="of an agent")
    try:
        await shows_those_of(live, service, directory)
    except BaseException:
        live.stop()  # what waits in a thread ends
        raise


async def shows_those_of(live: Live, service: RunningService, directory: Path) -> None:
    async with chromium(directory) as page:
        with service.client() as client:
            (session_id,) = [each.id for each in client.list_sessions().items if each.name == "of an agent"]
            await sign_in(page, service)
            await go(page, f"#/sessions/{session_id}")
            assert live.code("print(6 * 7)") == "42"
            running = asyncio.create_task(asyncio.to_thread(live.call, "executeCommand", command=WAITS))
            # Its output while it runs; the kernel is idle all the time.
            await page.wait_for("document.querySelector('.cell.command.running .text')?.innerText.trim() === 'begun'")
            assert await page.evaluate(INTERRUPT)
            await page.screenshot(directory / "command.png")
            client.command(session_id, "ls")
            live.code("open('go', 'w').close()")  # stands before the command, which ends later, in the record
            assert (await running)["structuredContent"]["exitCode"] == 3
            await page.wait_for("document.querySelector('.cell.command.error .exit')?.innerText === 'exit 3'")
            await page.wait_for(f"({SHOWN}).includes('+ made')")
            assert await page.evaluate(f"{COMMANDS}[0].querySelector('.by').innerText") == "admin · AgentCore"
            assert await page.evaluate(f"{COMMANDS}[0].querySelector('.outputs').innerText.includes('begun\\nbad')")
            await page.wait_for(f"{COMMANDS}[1]?.innerText.includes('exit 0')")
            assert await page.evaluate(f"{COMMANDS}[1].querySelector('.by').innerText") == "admin · REST"
            # Of each the page hears by events of its own.
            await page.wait_for(f"{STATES} === 'code ok, command error, command ok, code ok'")

            live.call("startCommandExecution", command="echo waiting; sleep 600")
            await page.wait_for(f"{COMMANDS}[2]?.innerText.includes('Runs in the background')")
            await page.wait_for(f"{COMMANDS}[2].querySelector('.outputs').innerText.includes('waiting')")
            await press(page, "Stop it")
            await page.wait_for(f"{COMMANDS}[2].innerText.includes('In the background it was stopped after')")
            assert await page.evaluate(f"{COMMANDS}[2].querySelector('.outputs').innerText.includes('waiting')")
            await stops_one(page, client, session_id)
            await page.wait_for(f"{PANEL}('Timeline')")
            await page.wait_for("document.querySelector('.timeline canvas')?.ariaLabel.includes('6 executions')")
            await page.screenshot(directory / "commands.png")

            live.stop()
            await page.reload()
            await page.wait_for(f"{COMMANDS}.length === 4 && ({SHOWN}).includes('exit 3')")
            assert await page.evaluate(f"{COMMANDS}[2].innerText.includes('In the background it was stopped after')")
            assert await page.evaluate(f"{COMMANDS}[2].querySelector('.outputs').innerText.includes('waiting')")
            await replays(page, directory)
            await shows_those_of_mcp(page, service)
        assert page.of("Runtime.exceptionThrown") == []


async def stops_one(page: Page, client: Client, session_id: str) -> None:
    """A command that somebody waits for, too."""
    running = asyncio.create_task(asyncio.to_thread(client.command, session_id, "echo in; sleep 600"))
    await page.wait_for(f"{COMMANDS}[3]?.querySelector('.text')?.innerText.trim() === 'in'")
    await press(page, "Stop it")
    assert (await running).status == "stopped"
    await page.wait_for(f"{COMMANDS}[3].innerText.includes('Interrupted.')")


async def replays(page: Page, directory: Path) -> None:
    """The one that was stopped is stopped again, after as long; all have both sides."""
    await choose(page, "Replay its notebook")
    await page.wait_for(f"{PAIRS}.length === 7")  # one is how the task ended
    await page.wait_for(f"!!document.querySelector('.bar .state') && !{TEXT}.includes('Not there.')")
    await page.screenshot(directory / "replay.png")
    exits = "each => [...each.querySelectorAll('.exit')].map(one => one.innerText).join()"
    expected = "|exit 0,exit 0||exit 3,exit 3|exit 143||exit 143,exit 143"
    await page.wait_for(f"{PAIRS}.map({exits}).join('|') === {expected!r}")


async def shows_those_of_mcp(page: Page, service: RunningService) -> None:
    peer = Peer(service)
    peer.begin()
    try:
        assert "out" in peer.call("run_shell", command="echo out")
        with service.client() as client:
            ran = [client.list_executions(each.id, commands=True).items for each in client.list_sessions().items]
        (session_id,) = [each[0].session_id for each in ran if each and each[0].face == "mcp"]
        await go(page, f"#/sessions/{session_id}")
        await page.wait_for(f"{COMMANDS}[0]?.querySelector('.by')?.innerText === 'admin · MCP'")
    finally:
        peer.end()
