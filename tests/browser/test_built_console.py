"""The console built again from its source, which takes Node: the same files, and pages that axe finds no fault with."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from sandcell import Client, Session
from scripts import console
from tests.browser.chromium import Page, chromium
from tests.browser.test_console import DRAWN, FIGURES, PANEL, PARQUET, PLOT, SHOWN, TABLE, sign_in
from tests.browser.test_widgets import CONTROLS
from tests.running_service import RunningService

pytestmark = pytest.mark.long
AXE = "axe.run(document, {resultTypes: ['violations']}).then(found => found.violations.map(each => [each.id, \
each.nodes.map(node => node.html)]))"
VALUES = """
import numpy as np, pandas as pd
hours = pd.date_range('2026-01-01', periods=480, freq='h')
rain = pd.DataFrame({'hour': hours, 'city': ['Oslo', 'Bergen', None] * 160, 'mm': np.sin(np.arange(480) / 9) ** 2})
sky = np.outer(np.hanning(90), np.hanning(160)); sky[:9] = np.nan
"""
TYPESCRIPT = "const half = (mm?: number) => (mm ?? 1) / 2; // of it\nconsole.log(`half is ${half()}`, /a+/, null)"
RAIN = "city,mm\nOslo,1.5\nBergen,{}\nVoss,7\n"
ANALYSIS = (
    "import pandas as pd\nrain = pd.read_csv('rain.csv')\nlen(rain)",
    "for city, mm in rain.itertuples(index=False):\n"
    "    print(f'{city:8}', f'\\x1b[31m{mm} mm, wet\\x1b[0m' if mm > 20 else f'{mm} mm')",
)
WAYS = {"narrow": ("light", 400), "dark": ("dark", 1100), "light": ("light", 1100)}
"""The last one stays, for what is done before the next look: in a narrow terminal names would be broken."""


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The source with what it needs, installed by its lock, below a folder as the repository's."""
    copy = tmp_path_factory.mktemp("built") / "console"
    shutil.copytree(console.SOURCE, copy, ignore=shutil.ignore_patterns("node_modules"))
    command = ("npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund")
    subprocess.run(command, cwd=copy, check=True, timeout=300)
    return copy


@pytest.mark.timeout(900)
def test_the_built_files_are_those_of_the_source(source: Path) -> None:
    subprocess.run(("npm", "run", "build"), cwd=source, check=True, timeout=300)
    built = source.parent / console.BUILT.relative_to(console.REPOSITORY)
    assert console.hash_files(built) == console.hash_files(console.BUILT)


@pytest.mark.timeout(900)
def test_axe_finds_no_fault(source: Path, service: RunningService, tmp_path: Path) -> None:
    axe = (source / "node_modules" / "axe-core" / "axe.min.js").read_text()
    assert asyncio.run(faults(axe, service, tmp_path)) == {}


async def faults(axe: str, service: RunningService, directory: Path) -> dict[str, object]:
    """What axe says of each page in each way; pictures of them are beside."""
    found: dict[str, object] = {}

    async def look(page: Page, name: str) -> None:
        for way in WAYS:
            await turn(page, way)
            await settle(page)
            await page.screenshot(directory / f"{name}-{way}.png")
            await page.evaluate(axe)
            answer = await page.ask("Runtime.evaluate", expression=AXE, awaitPromise=True, returnByValue=True)
            assert "exceptionDetails" not in answer, answer
            if answer["result"]["value"]:
                found[f"{name}, {way}"] = answer["result"]["value"]

    async with chromium(directory) as page:
        await page.visit(service.url)
        await page.wait_for("!!document.querySelector('#token')")
        await look(page, "sign-in")
        with service.client() as client, client.session("python", name="rain", labels={"team": "weather"}) as session:
            session.run("print('\\x1b[31mred\\x1b[0m \\x1b[32mgreen\\x1b[0m')")
            for look_of in ("41;97", "7", "48;5;21", "103"):
                session.run(f"print('\\x1b[{look_of}mon a ground of its own\\x1b[0m')")
            session.run(TABLE)
            session.run(PLOT)
            session.run("open('made.csv', 'w').write('city,mm\\nOslo,1.5\\n')")
            session.command("ls -l made.csv")
            session.run(TYPESCRIPT, language="typescript")
            session.run("half(0)  # is not defined")
            await page.visit("about:blank")
            await sign_in(page, service)
            await page.wait_for("!!document.querySelector('tbody a')")
            await look(page, "sessions")
            await page.evaluate(f"location.hash = '#/sessions/{session.id}'")
            await page.wait_for(f"({SHOWN}).includes('NameError')")
            await page.wait_for("!!document.querySelector('.editor')?.shadowRoot?.querySelector('.cm-content')")
            await look(page, "session")
            for name in ("Variables", "Files"):
                await page.wait_for(f"{PANEL}('{name}')")
                await page.wait_for("document.querySelectorAll('.panel tbody tr, .panel .empty').length > 0")
                await look(page, name.lower())
            await show_other_pages(page, session, look)
    return found


async def turn(page: Page, way: str) -> None:
    """The page in those colours and as wide as that."""
    scheme, width = WAYS[way]
    await page.ask("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
    await page.ask("Emulation.setDeviceMetricsOverride", width=width, height=800, deviceScaleFactor=1, mobile=False)


async def settle(page: Page) -> None:
    """Until all frames have loaded and said how high they are at this width: for a picture, or nothing is lost."""
    before = None
    for _ in range(40):
        now = await page.evaluate(DRAWN)
        if now == before and not [height for _, height in now if height == 60]:
            return
        before = now
        await asyncio.sleep(0.25)


async def show_values(page: Page, session: Session, look: Callable[[Page, str], Awaitable[None]]) -> None:
    """A table with histograms, a picture and a text, of variables."""
    session.run(VALUES)
    await page.wait_for(f"{PANEL}('Variables')")
    await page.wait_for(f"{PANEL}('rain')")
    await page.wait_for("document.querySelectorAll('.spread rect').length === 20 + 2 + 20")
    await look(page, "rows")
    await page.wait_for(f"{PANEL}('←')")
    await page.wait_for(f"{PANEL}('sky')")
    await page.wait_for(f"{PANEL}('Picture')")
    await page.wait_for("document.querySelector('.pixels')?.width === 160")
    await look(page, "picture")
    await page.wait_for(f"{PANEL}('Text')")
    await page.wait_for("!!document.querySelector('.preview-body pre')")
    await look(page, "text")


def start_differing(client: Client) -> tuple[str, str]:
    """Two sessions with the same analysis: the file of the second has another value, and somebody went on in it."""
    ids = []
    for name, value in (("yesterday", 12), ("today", 22.25)):
        session = client.start_session("python", name=name)
        client.upload(session.id, "rain.csv", RAIN.format(value).encode())
        for code in ANALYSIS:
            client.run(session.id, code)
        client.command(session.id, "tail -n 1 rain.csv")
        ids.append(session.id)
    client.run(ids[0], "rain.mm.mean()")
    client.run(ids[1], "rain.mm.median()")
    client.run(ids[1], "rain.groupby('city').mm.max()")
    return ids[0], ids[1]


async def show_other_pages(page: Page, session: Session, look: Callable[[Page, str], Awaitable[None]]) -> None:
    """All but sign-in, sessions and the session's first view, each looked at once it has what it shows."""
    client = session.client
    await show_values(page, session, look)
    session.upload("rain.csv", b"city,mm\nOslo,1.5\nBergen,22.25\n")
    await page.wait_for(f"{PANEL}('Files')")
    await page.wait_for(f"{PANEL}('rain.csv')")
    await page.wait_for("document.querySelectorAll('.preview-body td').length === 4")
    await look(page, "preview")
    session.create_checkpoint()
    session.run("print('Voss,7', file=open('rain.csv', 'a'))")
    await page.wait_for(f"{PANEL}('History')")
    await page.wait_for("document.querySelector('.history')?.innerText.includes('0 lines went, 1 came.')")
    await page.wait_for("!!document.querySelector('.history li')")
    await look(page, "history")
    session.upload("rain.parquet", PARQUET.read_bytes())
    await page.wait_for(f"{PANEL}('←')")
    await page.wait_for(f"{PANEL}('Refresh')")
    await page.wait_for(f"{PANEL}('rain.parquet')")
    await page.wait_for("document.querySelectorAll('.preview-body tbody tr').length === 3")
    await look(page, "parquet")
    await page.wait_for(f"{PANEL}('Files')")
    await page.wait_for(f"{PANEL}('Timeline')")
    await page.wait_for(f"{PANEL}('Take over')")
    await page.wait_for("!!document.querySelector('.lease.mine') && !!document.querySelector('.timeline canvas')")
    await look(page, "lease")
    await page.wait_for(f"{PANEL}('Attach')")
    await page.wait_for("document.querySelector('dialog')?.innerText.includes('Who may attach now')")
    await look(page, "attach")
    await page.wait_for(f"{PANEL}('Done')")
    await page.wait_for(f"{PANEL}('Give back')")
    await page.wait_for("!document.querySelector('.lease')")
    await turn(page, "light")  # no line of the shell is wider than the page
    await page.wait_for(f"{PANEL}('Shell')")
    await page.wait_for("document.querySelector('.xterm-rows')?.innerText.includes('/workspace')")
    await page.wait_for("!!document.activeElement?.closest('.xterm')")
    await page.type("ls -l --color")
    await page.press("Enter")
    await page.wait_for("document.querySelector('.xterm-rows').innerText.includes('rain.parquet')")
    await look(page, "shell")
    await page.wait_for(f"{PANEL}('Close')")
    session.run(FIGURES)
    await page.wait_for(f"{DRAWN}.filter(([, height]) => height > 20 && height !== 60).length >= 5")
    await look(page, "figures")
    session.run(CONTROLS)
    session.run("from tqdm.notebook import tqdm\nfor month in tqdm(range(12), desc='months'):\n    pass")
    await page.in_frame("widgets", "document.body.innerText.includes('100%')")
    await look(page, "widgets")

    before, after = start_differing(client)
    replay = client.start_replay(session_id=session.id)
    client.wait_replay(replay.id)
    client.put_agent("planner", environment="python")
    cells = "document.querySelectorAll('.pair').length > 3"
    rows = "document.querySelectorAll('tbody tr').length > 0"
    packages = "document.querySelectorAll('tbody tr').length > 20"
    for address, ready in {
        f"replays/{replay.id}": cells,
        f"compare/{before}/{after}": cells,
        "environments": rows,
        "environments/python": f"document.body.innerText.includes('planner') && {packages}",
        **{f"operations/{part}": rows for part in ("usage", "principals", "tokens", "audit")},
        "operations/metrics": "document.querySelectorAll('.curve polyline').length > 3",
        "operations/host": rows,
        "operations/pools": "!!document.querySelector('.empty')",
        "operations/store": "!!document.querySelector('.page > .hint')",
    }.items():
        await page.evaluate(f"location.hash = '#/{address}'")
        await page.wait_for(f"!document.querySelector('dialog') && {ready}")
        await look(page, address.partition("/")[0] if address.count("-") else address.replace("/", "-"))
    await page.evaluate("location.hash = '#/operations/tokens'")
    await page.wait_for(f"{PANEL}('New token')")
    await page.wait_for("!!document.querySelector('dialog')")
    await look(page, "new-token")
