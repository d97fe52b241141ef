"""The main paths of the console in Chromium, all of them in each `make test`; other modules look closer at each."""

from __future__ import annotations

import asyncio
import uuid
from pathlib import Path

from sandcell import Client
from tests.browser.chromium import Page, chromium
from tests.browser.test_console import DROP, NOTES, PANEL, PLOT, SHOWN, TEXT, run, sign_in
from tests.browser.test_console_pages import agree, fill, go, make_token, press, status_of
from tests.browser.test_console_record import choose
from tests.running_service import RunningService

ENDLESS = "import time\nrain = 22.25\nfor n in range(100_000):\n    print('step', n)\n    time.sleep(0.1)"
"""What an agent runs while a person watches."""


def test_the_main_paths(service: RunningService, tmp_path: Path) -> None:
    asyncio.run(walks(service, tmp_path))


async def walks(service: RunningService, directory: Path) -> None:
    name = f"path_{uuid.uuid4().hex[:8]}"
    async with chromium(directory) as page:
        with service.client() as client:
            await sign_in(page, service)
            session_id = await starts_a_session(page, name)
            await runs_a_cell_with_a_plot(page)
            await replays_and_reads_the_verdict(page, session_id)
            await watches_an_agent_and_interrupts(page, client, session_id)
            await takes_the_lease(page, client, session_id)
            await drops_a_file(page, client, session_id)
            await detaches_all_agents(page, client, name)
            await makes_and_revokes_a_token(page, service, name)
            client.stop_session(session_id)
        assert page.of("Runtime.exceptionThrown") == []


async def starts_a_session(page: Page, name: str) -> str:
    await press(page, "New session")
    await fill(page, "Name", name)
    await press(page, "Start")
    await page.wait_for(f"document.querySelector('h1')?.innerText === {name!r}")
    return str(await page.evaluate("location.hash.split('/')[2]"))


async def runs_a_cell_with_a_plot(page: Page) -> None:
    await run(page, PLOT)
    await page.wait_for("document.querySelector('.picture')?.naturalWidth > 300")
    await page.wait_for("document.querySelector('.cell .code-keyword')?.innerText === 'import'")
    await page.wait_for("document.querySelector('.cell .count b')?.innerText === '2'")  # after the session's start


async def replays_and_reads_the_verdict(page: Page, session_id: str) -> None:
    await choose(page, "Replay its notebook")
    await page.wait_for("document.querySelector('.pair .state')?.innerText === 'same'")
    await page.wait_for("document.querySelectorAll('.pair .picture').length === 2")
    await page.wait_for("document.querySelector('.pair .count b')?.innerText === '2'")
    await page.wait_for(f"{TEXT}.includes('All the same')")
    await go(page, f"#/sessions/{session_id}")


async def watches_an_agent_and_interrupts(page: Page, client: Client, session_id: str) -> None:
    """Its output comes as it is printed, and its variables are there while it runs."""
    runs = client.submit(session_id, ENDLESS)
    await page.wait_for(f"({SHOWN}).includes('step 3')")
    await page.wait_for(f"{PANEL}('Variables')")
    await page.wait_for("document.querySelector('.panel')?.innerText.includes('22.25')")
    assert client.get_execution(session_id, runs.id).status == "running"
    await press(page, "Interrupt")
    await page.wait_for(f"({SHOWN}).includes('KeyboardInterrupt')")


async def takes_the_lease(page: Page, client: Client, session_id: str) -> None:
    await press(page, "Take over")
    await page.wait_for(f"{TEXT}.includes('You have this session to yourself')")
    waits = client.submit(session_id, "'after the person'")
    await run(page, "print('by ' + 'a person')")
    await page.wait_for(f"({SHOWN}).includes('by a person')")
    assert client.get_execution(session_id, waits.id).status == "queued"
    await press(page, "Give back")
    assert client.wait(session_id, waits.id).status == "ok"
    await page.wait_for(f"{NOTES}.some(text => text.startsWith('The lease of admin ended. It was given back.'))")


async def drops_a_file(page: Page, client: Client, session_id: str) -> None:
    await page.wait_for(f"{PANEL}('Files')")
    await page.wait_for("document.querySelector('.panel h2')?.innerText === 'Files'")
    await page.evaluate(DROP)
    await page.wait_for("document.querySelector('.panel tbody')?.innerText.includes('dropped #1.txt')")
    assert client.run(session_id, "open('dropped #1.txt').read()").text == "'from a person'"


async def detaches_all_agents(page: Page, client: Client, name: str) -> None:
    made = client.create_environment(name, image="python")
    agent = client.put_agent(f"{name}-planner", environment=made.id)
    await go(page, f"#/environments/{made.id}")
    await page.wait_for(f"{TEXT}.includes({agent.name!r})")
    await press(page, "Disassociate all agents")
    await page.wait_for(f"{TEXT}.includes('1 agent disassociated.')")
    assert client.get_agent(agent.name).environment is None
    client.delete_environment(made.id)


async def makes_and_revokes_a_token(page: Page, service: RunningService, name: str) -> None:
    token = await make_token(page, name)
    assert status_of(service, token, "/v1/sessions") == 200
    await press(page, "Done")
    await agree(page, f"Revoke the agent of {name}")
    await page.wait_for(f"!{TEXT}.includes('the agent of {name}')")
    assert status_of(service, token, "/v1/sessions") == 401
