"""Shells in the console: typed into, as wide as the page, there again after a break; nothing they show acts."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from sandcell import Client
from tests.browser.canary import listening
from tests.browser.chromium import DEADLINE_SECONDS, Page, chromium
from tests.browser.test_console import PANEL, sign_in
from tests.browser.test_console_pages import press
from tests.browser.test_hostile_pages import PAYLOADS, click_down, options, require_nothing_acted
from tests.running_service import RunningService

SCREEN = "document.querySelector('.screen:not([hidden])')"
ROWS = f"({SCREEN}?.querySelector('.xterm-rows')?.innerText.replaceAll('\\u00a0', ' ') ?? '')"
STATUS = f"({SCREEN}?.querySelector('[role=status]')?.innerText ?? '')"
CELL = "[...document.querySelectorAll('.cell.command.running')].at(-1)"
KEYS = f"{SCREEN}.querySelector('textarea')"
HOSTILE = [
    "\x1b]52;c;c3RvbGVu\x07",
    "\x1b]0;<img src=x onerror=alert(1)>\x07",
    "\x1b]8;;javascript:alert(1)\x1b\\a link\x1b]8;;\x1b\\",
    "\x1b]8;;http://link.evil.example/\x1b\\another link\x1b]8;;\x1b\\",
    "\x1b]1337;File=inline=1:PHN2Zz48L3N2Zz4=\x07",
    "\x1b]4;1;url(http://colour.evil.example/)\x07\x1b]11;url(http://colour.evil.example/)\x07",
    "\x1bPq#0;2;0;0;0#0~~@@vv@@~~@@~~$\x1b\\",
    "\x1b[21t\x1b[14t\x1b[8;9999;9999t",
    "\x1b[38;2;255;0;0mtrue colour\x1b[0m",
    *PAYLOADS,
]


async def type_in(page: Page, text: str) -> None:
    await page.wait_for(f"document.activeElement === {KEYS}")
    await page.type(text)
    await page.press("Enter")


async def open_shell(page: Page, service: RunningService, session_id: str, shown: str) -> None:
    """Sign in and go to the session's shell; `shown` is in it then."""
    await sign_in(page, service)
    await page.evaluate(f"location.hash = '#/sessions/{session_id}'")
    await page.wait_for(f"{PANEL}('Shell')")
    await page.wait_for(f"{ROWS}.includes('{shown}')")


@pytest.mark.sample("pages")
def test_a_shell_is_opened_used_and_left(service: RunningService, tmp_path: Path) -> None:
    asyncio.run(uses_a_shell(service, tmp_path))


async def uses_a_shell(service: RunningService, directory: Path) -> None:
    async with chromium(directory) as page:
        with service.client() as client, client.session("python") as session:
            for _ in range(9):
                session.run("print('a line\\n' * 9)")
            await open_shell(page, service, session.id, "/workspace")
            left = "(each => each.scrollHeight - each.scrollTop - each.clientHeight)(document.querySelector('.cells'))"
            await page.wait_for(f"{left} < 5")  # who reads the end stays there when there is less room for it
            await type_in(page, "echo wri''tten; stty size; tty")
            await page.wait_for(f"{ROWS}.includes('written\\n') && {ROWS}.includes('/dev/pts/')")
            assert await page.evaluate(f"{CELL}.innerText.includes('Open below')"), "it shows once"
            assert not await page.evaluate(f"{CELL}.innerText.includes('written')")
            await press(page, "Close")
            await page.wait_for(f"{CELL}.innerText.includes('written')")
            await page.wait_for(f"{PANEL}('Shell')")
            await page.wait_for(f"{ROWS}.includes('written\\n')")
            await page.ask(
                "Emulation.setDeviceMetricsOverride", width=700, height=900, deviceScaleFactor=1, mobile=False
            )
            narrow = f"Number({ROWS}.match(/narrow (\\d+)/g)?.pop().slice(7) ?? 999) < 90"
            await type_in(
                page, "while :; do set -- $(stty size); echo narrow $2; [ $2 -lt 90 ] && break; sleep 0.2; done"
            )
            await page.wait_for(narrow)
            await type_in(page, "printf '\\033[38;2;200;30;30m%s\\033[0m\\n' g'r\\303\\274'n 漢字")
            await page.wait_for(f"{ROWS}.includes('漢字')")
            coloured = (
                "[...document.querySelectorAll('.xterm-rows span')].some(each => each.style.color.startsWith('rgb'))"
            )
            await page.wait_for(coloured)  # colours of programs show, though the page forbids styles
            await page.screenshot(directory / "shell.png")
            await page.ask("Input.dispatchKeyEvent", type="keyDown", key="F6", code="F6", modifiers=2)
            await page.wait_for("document.activeElement.innerText === 'Close'")

            await page.wait_for(f"{PANEL}('New shell')")
            await page.wait_for(
                f"document.querySelectorAll('.shells .tab').length === 2 && {ROWS}.includes('/workspace')"
            )
            await type_in(page, "exit 3")
            await page.wait_for(f"{STATUS}.includes('It ended with status 3.')")
            await page.evaluate("document.querySelector('.shells .tab button').click()")
            await page.wait_for(f"{ROWS}.includes('漢字')")

            await page.reload()  # the shell goes on without the page
            await page.wait_for(f"{PANEL}('Shell')")
            await page.wait_for(f"{ROWS}.includes('漢字')")
            await type_in(page, "exit")
            await page.wait_for(f"{STATUS}.includes('It ended with status 0.')")
            await page.wait_for(f"{PANEL}('Open another')")
            await page.wait_for("document.querySelectorAll('.shells .tab').length === 2")
            await page.wait_for(f"{ROWS}.includes('/workspace')")
            await page.evaluate("document.querySelector('.shells .tab:nth-of-type(2) .quiet').click()")
            await until_none_run(client, session.id)
        assert [each for each in page.of("Log.entryAdded") if "violates" in each["entry"]["text"]] == []
        assert page.of("Runtime.exceptionThrown") == []


@pytest.mark.sample("pages")
def test_a_shell_is_typed_into_and_read_out(service: RunningService, tmp_path: Path) -> None:
    asyncio.run(is_read_out(service, tmp_path))


async def is_read_out(service: RunningService, directory: Path) -> None:
    """In the way for screen readers, by keys and by text that comes without any, as what is dictated does."""
    async with chromium(directory) as page:
        with service.client() as client, client.session("python") as session:
            await open_shell(page, service, session.id, "/workspace")
            await page.evaluate("document.querySelector('.shells [type=checkbox]').click()")
            await page.wait_for("!!document.querySelector('.xterm-accessibility')")
            await page.evaluate(f"{KEYS}.focus()")
            for key in ("e", "c", "h", "o", "Space", "$", "(", "(", "6", "*", "7", ")", ")", "x"):
                await page.press(key)
            await page.press("ArrowLeft")
            await page.press("y")
            await page.press("Enter")
            await page.wait_for(f"{ROWS}.includes('\\n42yx\\n')")
            await page.wait_for("document.querySelector('.live-region').textContent.includes('42yx')")
            await page.type("echo $((6*8))")
            await page.press("z")
            await page.press("Enter")
            await page.wait_for(f"{ROWS}.includes('\\n48z\\n')")
            listed = (
                "[...document.querySelectorAll('.xterm-accessibility [role=listitem]')].map(each => each.innerText)"
            )
            await page.wait_for(f"{listed}.includes('42yx')")
        assert page.of("Runtime.exceptionThrown") == []


async def until_none_run(client: Client, session_id: str) -> None:
    async with asyncio.timeout(DEADLINE_SECONDS):
        while await asyncio.to_thread(client.list_programs, session_id):
            await asyncio.sleep(0.1)


@pytest.mark.sample("pages")
def test_nothing_that_a_shell_shows_acts(service: RunningService, tmp_path: Path) -> None:
    asyncio.run(nothing_acts(service, tmp_path))


async def nothing_acts(service: RunningService, directory: Path) -> None:
    with listening() as canary, service.client() as client, client.session("python") as session:
        shown = "\r\n".join([*HOSTILE, "the end", ""]).encode("utf-8", "replace")
        session.upload("hostile", shown)
        program = session.start_program(["bash", "-c", "cat hostile; exec cat"], terminal=(80, 24))
        async with chromium(directory, options(canary)) as page:
            await open_shell(page, service, session.id, "the end")
            await click_down(page, 60, range(100, 900, 20))
            await require_nothing_acted(page, canary, service.url)
            assert "img" not in await page.evaluate("document.title")
            assert not await page.evaluate("!!document.querySelector('.xterm-rows img, .xterm-rows script')")
        session.signal_program(program.id, "SIGKILL")
