"""The console in Chromium: signing in, the list of sessions, a session as it runs."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.browser.chromium import DEADLINE_SECONDS, Page, chromium
from tests.running_service import RunningService

PLOT = (
    "import matplotlib.pyplot as plt\nplt.figure(figsize=(6, 2.5))\n"
    "plt.plot([0, 1, 4, 9, 16], 'o-')\nplt.title('Squares')\nplt.show()"
)
TABLE = "import pandas as pd\npd.DataFrame({'city': ['Oslo', 'Bergen'], 'mm': [1.5, 22.25]})"
FIGURES = r"""
line = {'type': 'scattergl', 'x': [1, 2, 3], 'y': [3, 1, 2]}
figure = {'data': [line], 'layout': {'height': 234}}
display({'application/vnd.plotly.v1+json': figure, 'text/html': '<script>1</script>'}, raw=True)
chart = {'$schema': 'https://vega.github.io/schema/vega-lite/v6.json', 'height': 123,
         'data': {'values': [{'a': 1}, {'a': 4}]},
         'transform': [{'calculate': 'datum.a * 2', 'as': 'b'}], 'mark': 'bar', 'encoding': {'y': {'field': 'b'}}}
import json
display({'application/vnd.vegalite.v6.json': chart}, raw=True)
script = '(function(s, o){ vegaEmbed("#x", s, o); })(' + json.dumps(chart) + ', {});'
display({'text/html': f'<div></div><script>{script}</script>'}, raw=True)
display({'text/latex': r'$\displaystyle \frac{1}{n}\sum_{i=1}^n x_i$'}, raw=True)
display({'text/markdown': '# Rain\n\nof $\\bar x$ mm\n\n|a|b|\n|-|-|\n|1|2|'}, raw=True)
display({'application/vnd.jupyter.widget-view+json': {'model_id': 'x'}, 'text/plain': 'IntSlider(value=7)'}, raw=True)
"""
DRAWN = "[...document.querySelectorAll('iframe')].map(each => [each.className.split(' ')[1], each.offsetHeight])"
EDITOR = "document.querySelector('.editor')?.shadowRoot?.querySelector('.cm-content')"
FRAME_HEIGHT = "document.querySelector('iframe')?.offsetHeight"
TOOLTIP = "document.querySelector('.editor')?.shadowRoot?.querySelector('.cm-tooltip-autocomplete')"
INSPECTED = "document.querySelector('.editor').shadowRoot.querySelector('.inspected')"
PANEL = "(name => { const found = [...document.querySelectorAll('button')].find(b => b.innerText === name && \
!b.disabled); found?.click(); return !!found })"
DROP = """
(() => {
  const dropped = new DataTransfer();
  dropped.items.add(new File(['from a person'], 'dropped #1.txt'));
  document.querySelector('.panel').dispatchEvent(new DragEvent('drop', {dataTransfer: dropped, bubbles: true}));
})()
"""
PIXELS = """
(canvas => {
  const pixel = (x, y) => [...canvas.getContext('2d').getImageData(x, y, 1, 1).data];
  return canvas && [...pixel(0, 0).slice(2), ...pixel(canvas.width - 1, canvas.height - 1).slice(2)].join(' ');
})(document.querySelector('.pixels'))
"""
NOTES = "[...document.querySelectorAll('.cells .note')].map(each => each.innerText)"
TEXT = "document.body.innerText"
CLEARING = (
    "import time\nfrom IPython.display import clear_output\nprint('cle' + 'ared')\nclear_output(wait=True)\n"
    "print('sho' + 'wn')\ntime.sleep(600)"
)
PARQUET = Path(__file__).parent / "rain.parquet"
ROWS = "document.querySelector('.preview-body tbody')?.innerText"
BUSY = """
window.idle = [setTimeout, requestAnimationFrame];
window.requestAnimationFrame = work => idle[0].call(window, work, 2000);
window.setTimeout = (work, wait, ...more) => idle[0].call(window, work, (wait ?? 0) + 2000, ...more);
"""
"""Effects of Preact's components run two seconds late, as on a machine that is busy."""
IDLE = "[window.setTimeout, window.requestAnimationFrame] = window.idle; true"
FOLDER = "document.querySelector('.tree [aria-expanded]')"
AGREE = "document.querySelector('.sign-in button.main')"
SHOWN = "document.querySelector('.cells')?.innerText ?? ''"


LAST_TEXT = "[...document.querySelectorAll('.cells .text')].at(-1)"
LEFT_BELOW = f"(own => own.scrollHeight - own.scrollTop - own.clientHeight)({LAST_TEXT})"


async def sign_in(page: Page, service: RunningService) -> None:
    with service.client() as client:
        await page.visit(service.url + client.create_console_link().link)
    await page.wait_for(f"{AGREE}?.innerText.startsWith('Sign in as ')")
    await page.evaluate(f"{AGREE}.click()")
    await page.wait_for("document.querySelector('h1')?.innerText === 'Sessions'")


async def run(page: Page, code: str) -> None:
    """Write it in the editor of the session's page and press Shift+Enter."""
    await page.wait_for(f"!!{EDITOR}")
    await page.evaluate(f"{EDITOR}.focus()")
    await page.type(code)
    await page.press("Enter", shift=True)


@pytest.mark.sample("pages")
def test_a_session_shows_its_variables_and_files(service: RunningService, tmp_path: Path) -> None:
    asyncio.run(looks_into(service, tmp_path))


async def looks_into(service: RunningService, directory: Path) -> None:
    async with chromium(directory) as page:
        with service.client() as client, client.session("python") as session:
            session.run("import numpy as np\nsquares = np.arange(10_000).reshape(100, 100) ** 2\ncity = 'Oslo'")
            session.run("import os\nos.mkdir('reports')\nopen('reports/rain <1>.csv', 'w').write('mm\\n22.25\\n')")
            await sign_in(page, service)
            await page.evaluate(f"location.hash = '#/sessions/{session.id}'")
            await page.wait_for("document.querySelector('.changes')?.innerText.includes('+ reports/rain <1>.csv')")
            assert await page.evaluate("document.querySelector('.by').innerText") == "admin · REST"
            await page.wait_for(f"{PANEL}('Timeline')")
            await page.wait_for(
                "document.querySelector('.curve polyline') && document.querySelectorAll('.curve').length === 2"
            )
            await page.evaluate("document.querySelector('.changes button').click()")
            await page.wait_for("document.querySelector('.preview-body tbody')?.innerText.includes('22.25')")
            await page.wait_for(f"{PANEL}('Variables')")
            await page.wait_for("document.querySelector('.panel')?.innerText.includes('ndarray 100')")
            session.run("later = 1")
            await page.wait_for("document.querySelector('.panel').innerText.includes('later')")
            await page.wait_for(f"{PANEL}('squares')")
            await page.wait_for("document.querySelector('.panel')?.innerText.includes('Rows 1 to 100 of 100')")
            assert await page.evaluate(
                "document.querySelector('.panel tbody tr').innerText.startsWith('0\\t0\\t1\\t4')"
            )
            session.run("squares = squares[:50] + 1")
            await page.wait_for("document.querySelector('.panel').innerText.includes('Rows 1 to 50 of 50')")
            await page.wait_for("document.querySelectorAll('.spread rect').length === 20 * 100")
            await page.wait_for(f"{PANEL}('Picture')")
            await page.wait_for(f"({PIXELS}) === '0 255 255 255'")
            await page.wait_for(f"{PANEL}('Text')")
            await page.wait_for("document.querySelector('.panel pre')?.innerText.startsWith('array([[')")

            await page.wait_for(f"{PANEL}('Files')")
            await page.wait_for(f"!!{FOLDER}")
            await page.evaluate(f"{FOLDER}.focus()")
            await page.press("ArrowRight")
            await page.wait_for("document.querySelector('.panel').innerText.includes('rain <1>.csv')")
            await page.press("ArrowDown")
            await page.press("ArrowLeft")  # from a file to its folder, and then it closes
            await page.press("ArrowLeft")
            await page.wait_for("!document.querySelector('.panel').innerText.includes('rain <1>.csv')")
            await page.press("ArrowRight")
            await page.wait_for("document.querySelector('.panel').innerText.includes('rain <1>.csv')")
            await page.evaluate(DROP)
            # Listed, not only named as what is being sent.
            await page.wait_for("document.querySelector('.panel tbody')?.innerText.includes('dropped #1.txt')")
            assert session.run("open('reports/dropped #1.txt').read()").text == "'from a person'"
            (directory / "months" / "wet").mkdir(parents=True)
            (directory / "months" / "wet" / "may.txt").write_text("22.25")
            await page.drop(directory / "months", "document.querySelector('.panel h2, .panel')")
            await page.wait_for("document.querySelector('.panel tbody')?.innerText.includes('months/')")
            assert session.run("open('reports/months/wet/may.txt').read()").text == "'22.25'"
            saved = {"behavior": "allow", "downloadPath": str(directory)}
            await page.ask("Browser.setDownloadBehavior", **saved)
            await page.wait_for(f"{PANEL}('rain <1>.csv')")
            await page.wait_for("document.querySelector('.preview-body tbody')?.innerText.includes('22.25')")
            await page.wait_for(f"{PANEL}('Download')")
            await wait_for_file(directory, "mm\n22.25\n")
            session.upload("rain.parquet", PARQUET.read_bytes())
            await page.evaluate("document.querySelector('[aria-label=\"All files\"]').click()")
            await page.wait_for(f"{PANEL}('Refresh')")
            await page.wait_for(f"{PANEL}('rain.parquet')")
            await page.wait_for(
                f"{ROWS} === '1\\tOslo\\t1.5\\t2026-01-01\\n2\\tBergen\\t22.25\\t2026-01-01\\n3\\t\\t0\\t2026-01-01'"
            )
            assert (
                await page.evaluate("document.querySelector('.preview-body th:nth-child(3)').innerText") == "mm\ndouble"
            )
            await page.evaluate("document.querySelector('[aria-label=\"All files\"]').click()")
            await page.evaluate(BUSY)  # the frame is ready long before the page comes to its effects
            await page.wait_for(f"{PANEL}('rain.parquet')")
            await page.wait_for(f"{ROWS}?.includes('Bergen')")
            await page.evaluate(IDLE)
            await page.evaluate("document.querySelector('[aria-label=\"All files\"]').click()")
            session.upload("broken.parquet", PARQUET.read_bytes()[:-40])
            await page.wait_for(f"{PANEL}('Refresh')")
            await page.wait_for(f"{PANEL}('broken.parquet')")
            await page.wait_for(
                "document.querySelector('.preview-body')?.innerText.includes('It could not be read as Parquet: ')"
            )
            await page.evaluate("document.querySelector('[aria-label=\"All files\"]').click()")
            await page.wait_for(f"{PANEL}('rain <1>.csv')")
            await page.wait_for(f"{PANEL}('History')")
            await page.wait_for(
                "document.querySelector('.history')?.innerText.includes('only a checkpoint keeps that')"
            )
            session.create_checkpoint()
            session.run("print(9, file=open('reports/rain <1>.csv', 'a'))")
            await page.wait_for("document.querySelector('.history').innerText.includes('0 lines went, 1 came.')")
            assert await page.evaluate("document.querySelector('.history mark').innerText.trim()") == "9"
            await page.wait_for("document.querySelector('.history').innerText.includes('checkpoint after cell 7')")
            _, changed = await page.evaluate(
                "[...document.querySelectorAll('.history li .hint')].map(each => each.innerText.trim())"
            )
            assert changed == "as it is now"
            await page.screenshot(directory / "history.png")
            await page.evaluate("document.querySelector('[aria-label=\"All files\"]').click()")
            await page.wait_for(f"{PANEL}('Store')")
            await page.wait_for("document.querySelector('.panel').innerText.includes('As they are in the store')")
            await page.wait_for("document.querySelector('.tree')?.innerText.includes('reports/')")
        assert page.of("Runtime.exceptionThrown") == []


async def wait_for_file(directory: Path, content: str) -> None:
    """Chromium chooses another name for one that has `<` in it."""
    async with asyncio.timeout(DEADLINE_SECONDS):
        while content not in [each.read_text() for each in directory.glob("rain*.csv")]:
            await asyncio.sleep(0.05)


@pytest.mark.sample("pages")
def test_a_person_signs_in_looks_steps_in_and_signs_out(service: RunningService, tmp_path: Path) -> None:
    asyncio.run(steps_in(service, tmp_path))


async def steps_in(service: RunningService, directory: Path) -> None:
    async with chromium(directory) as page:
        with service.client() as client, client.session("python", name="rain in <Norway>", agent="analyst") as session:
            session.run("print('\\x1b[31mred\\x1b[0m')\n1 + 41")
            session.run(TABLE)
            session.run("def half(n):\n    return 1 / n\n\nhalf(0)")
            await sign_in(page, service)
            assert await page.evaluate("location.hash") == ""
            await page.wait_for("document.querySelector('tbody a')?.innerText === 'rain in <Norway>'")
            await page.screenshot(directory / "sessions.png")
            await page.evaluate("document.querySelector('tbody a').click()")
            await page.wait_for(f"({SHOWN}).includes('ZeroDivisionError')")
            await page.wait_for(f"({FRAME_HEIGHT} ?? 60) !== 60")  # the frame has said how high its table is

            session.run(FIGURES)
            # What could not be drawn says so in a line or two, which is less high.
            await page.wait_for(f"{DRAWN}.filter(([, height]) => height > 20 && height !== 60).length === 6")
            # A frame says how high it is also before all of it is drawn.
            await page.wait_for(f"(all => all[1][1] === 234 && all[2][1] > 123 && all[3][1] > 123)({DRAWN})")
            kinds = [kind for kind, _ in await page.evaluate(DRAWN)]
            assert kinds == ["output", "plotly", "vega", "vega", "prose", "prose"]
            await page.wait_for(f"({SHOWN}).includes('A widget, as text and as it was at first.')")

            session.run(PLOT)
            await page.wait_for("document.querySelector('.picture')?.naturalWidth > 300")

            session.run("precipitation = 1")
            await page.wait_for(f"!!{EDITOR}")
            await page.evaluate(f"{EDITOR}.focus()")
            await page.type("'🌧', preci")
            await page.press("Space", control=True)
            await page.wait_for(f"{TOOLTIP}?.innerText.includes('precipitation')")
            await page.press("Enter")
            await page.wait_for(f"{EDITOR}.innerText === \"'🌧', precipitation\"")
            await page.press("Enter", shift=True)
            await page.wait_for(f"({SHOWN}).includes(\"('🌧', 1)\")")

            # Its output shows before it has ended, and until then the kernel is not asked about names.
            await page.wait_for("!document.querySelector('.cell.running')")
            await page.evaluate(f"{EDITOR}.focus()")
            await page.type("precipitation.bit_length")
            await page.press("Tab", shift=True)
            await page.wait_for(f"{INSPECTED}?.innerText.includes('Number of bits necessary')")
            await page.press("Escape")
            await page.wait_for(f"!{INSPECTED}")
            await page.press("Enter", shift=True)
            await page.wait_for(f"!{EDITOR}.innerText.includes('precipitation')")

            await run(page, "import time\nfor n in range(10_000):\n    print('step', n)\n    time.sleep(0.1)")
            await page.wait_for(f"({SHOWN}).includes('step 3')")
            await page.screenshot(directory / "session.png")
            await page.wait_for(f"{PANEL}('Interrupt')")
            await page.wait_for(f"({SHOWN}).includes('KeyboardInterrupt')")
            assert session.run("n > 0").text == "True"
        await page.wait_for("document.body.innerText.includes('Session ended: ')")
        await page.evaluate("[...document.querySelectorAll('button')].find(b => b.innerText === 'Sign out').click()")
        await page.wait_for("!!document.querySelector('#token')")
        await page.screenshot(directory / "out.png")
        problems = [each["entry"]["text"] for each in page.of("Log.entryAdded") if "401" not in each["entry"]["text"]]
        assert problems == []
        assert page.of("Runtime.exceptionThrown") == []


@pytest.mark.sample("pages")
def test_a_link_asks_first_and_what_fails_is_said_and_tried_again(service: RunningService, tmp_path: Path) -> None:
    asyncio.run(asks_first(service, tmp_path))


async def asks_first(service: RunningService, directory: Path) -> None:
    async with chromium(directory) as page:
        await sign_in(page, service)
        with service.client() as client, client.session("python") as session:
            with service.client(client.create_token("eve", scope="read").token) as eve:
                link = eve.create_console_link().link
            await page.evaluate(f"location.hash = {link[1:]!r}")
            await page.wait_for(f"{TEXT}.includes('You are admin; this link signs you in as eve.')")
            await page.screenshot(directory / "link.png")
            await page.wait_for(f"{PANEL}('Stay admin')")
            await page.wait_for("document.querySelector('.who')?.innerText === 'admin'")

            session.run("'the first'")
            await page.ask("Network.setBlockedURLs", urls=["*/executions?*"])
            await page.evaluate(f"location.hash = '#/sessions/{session.id}'")
            await page.wait_for(f"{TEXT}.includes('Trying again.')")
            # An execution that is heard of before those that it follows are listed.
            session.run("'the second'")
            await page.wait_for(f"({SHOWN}).includes('the second')")
            await page.ask("Network.setBlockedURLs", urls=[])
            await page.wait_for(f"({SHOWN}).includes('the first')")
            assert await page.evaluate(f"({SHOWN}).indexOf('the first') < ({SHOWN}).indexOf('the second')")
            await page.wait_for(f"!{TEXT}.includes('Trying again.')")

            await run(page, CLEARING)
            await page.wait_for(f"({SHOWN}).includes('shown')")
            assert not await page.evaluate(f"({SHOWN}).includes('cleared')")
            await page.wait_for(f"{PANEL}('Interrupt')")
            await page.wait_for(f"({SHOWN}).includes('KeyboardInterrupt')")

            await page.ask("Network.setBlockedURLs", urls=["*/console/sign-in"])
            await page.wait_for(f"{PANEL}('Sign out')")
            await page.wait_for(f"{TEXT}.includes('You are still signed in')")
            await page.ask("Network.setBlockedURLs", urls=[])
            await page.wait_for(f"{PANEL}('Try again')")
            await page.wait_for("!!document.querySelector('#token')")
        assert page.of("Runtime.exceptionThrown") == []


@pytest.mark.sample("pages")
def test_code_is_sent_once_and_what_is_written_meanwhile_stays(service: RunningService, tmp_path: Path) -> None:
    asyncio.run(writes_on(service, tmp_path))


async def writes_on(service: RunningService, directory: Path) -> None:
    async with chromium(directory) as page:
        with service.client() as client, client.session("python") as session:
            await sign_in(page, service)
            await page.evaluate(f"location.hash = '#/sessions/{session.id}'")
            answers = {"urlPattern": "*/executions", "requestStage": "Response"}
            await page.ask("Fetch.enable", patterns=[answers])
            await run(page, "'the first'")
            held = await page.until("Fetch.requestPaused")
            await page.press("Enter", shift=True)  # nothing is there any more that would run twice
            await page.type("'the second'")
            await page.wait_for(f"({SHOWN}).includes('the first')")
            await page.ask("Fetch.disable")  # the answer that was held up comes
            await page.until("Network.loadingFinished", requestId=held["networkId"])
            await page.ask(
                "Runtime.evaluate", expression="new Promise(done => setTimeout(done, 100))", awaitPromise=True
            )
            assert await page.evaluate(f"{EDITOR}.innerText") == "'the second'"
            await page.press("Enter", shift=True)
            await page.wait_for(f"({SHOWN}).includes('the second')")

            await page.ask("Network.setBlockedURLs", urls=["*/executions"])
            await run(page, "'the third'")
            await page.wait_for("document.querySelector('.prompt .problem')?.innerText.length > 10")
            await page.wait_for(f"{EDITOR}.innerText === \"'the third'\"")  # it is there to be sent again
            await page.ask("Network.setBlockedURLs", urls=[])
            await page.press("Enter", shift=True)
            await page.wait_for(f"({SHOWN}).includes('the third')")
            assert len(client.list_executions(session.id).items) == 3
        assert page.of("Runtime.exceptionThrown") == []


@pytest.mark.sample("pages")
def test_both_ends_of_long_outputs_show_and_keys_are_jupyters(service: RunningService, tmp_path: Path) -> None:
    asyncio.run(shows_ends(service, tmp_path))


async def shows_ends(service: RunningService, directory: Path) -> None:
    async with chromium(directory) as page:
        with service.client() as client, client.session("python") as session:
            await sign_in(page, service)
            await page.evaluate(f"location.hash = '#/sessions/{session.id}'")
            session.run("for n in range(10_000):\n    print(f'row{n}')")
            await page.wait_for(f"({SHOWN}).includes('row9999') && ({SHOWN}).includes('9,600 more lines')")
            assert await page.evaluate(f"({SHOWN}).includes('row199\\n') && !({SHOWN}).includes('row200\\n')")
            assert await page.evaluate(f"({SHOWN}).includes('row9800\\n') && !({SHOWN}).includes('row9799\\n')")
            await page.wait_for(f"{PANEL}('9,600 more lines')")
            await page.wait_for(f"({SHOWN}).includes('row5000')")

            session.run("def down(n):\n    return down(n - 1) if n else n['the end']\n\ndown(40)")
            await page.wait_for(f"({SHOWN}).includes('TypeError') && {LAST_TEXT}.scrollTop > 100 && {LEFT_BELOW} < 2")

            session.run("import pandas as pd\npd.DataFrame([[0.123456] * 18], columns=['rain' * 4] * 18)")
            wide = "document.body.scrollWidth > innerWidth && document.querySelector('tbody td').offsetHeight < 30"
            await page.in_frame("output", f"!!document.querySelector('tbody td') && {wide}")

            await run(page, "import time\nfor n in range(100_000):\n    print('step', n)\n    time.sleep(0.01)")
            # One of those steps or a later one: each shows only until two hundred others have come.
            await page.wait_for(f"/step ([5-9]\\d\\d|\\d{{4,}})\\n/.test({SHOWN}) && {LEFT_BELOW} < 40")
            await page.press("Escape")
            await page.press("k")
            await page.wait_for("document.activeElement.matches('.cell.running')")
            await page.press("i")
            await page.press("i")
            await page.wait_for(f"({SHOWN}).includes('KeyboardInterrupt')")
            await page.press("k")
            await page.wait_for("document.activeElement.matches('.cell.ok') && !!document.activeElement.nextSibling")
            await page.press("Enter")
            await page.wait_for("document.activeElement.matches('.editor')")
            await page.press("ArrowUp")
            await page.press("ArrowUp")
            await page.wait_for(f"{EDITOR}.innerText.startsWith('import pandas')")
            await page.press("ArrowDown")
            await page.wait_for(f"{EDITOR}.innerText.startsWith('import time')")
            await page.press("ArrowDown")
            await page.wait_for(f"{EDITOR}.innerText.startsWith('Code to run in this session')")
        assert page.of("Runtime.exceptionThrown") == []


@pytest.mark.sample("pages")
@pytest.mark.long
def test_of_a_thousand_cells_a_few_are_in_the_page(service: RunningService, tmp_path: Path) -> None:
    asyncio.run(looks_at_many(service, tmp_path))


async def looks_at_many(service: RunningService, directory: Path) -> None:
    with service.client() as client, client.session("python") as session:
        for number in range(1, 1001):
            session.run(f"open('early.txt', 'a' if {number} == 1 else 'r').close()\nprint('row\\n' * {number % 40})")
        async with chromium(directory) as page:
            await sign_in(page, service)
            await page.evaluate(f"location.hash = '#/sessions/{session.id}'")
            for number, scroll in ((1000, "undefined"), (1, "0"), (1000, "1e9")):
                await page.evaluate(
                    f"{scroll} === undefined || (document.querySelector('.cells').scrollTop = {scroll})"
                )
                await page.wait_for(f"!!document.querySelector('[aria-posinset=\"{number}\"]')")
                assert 3 < await page.evaluate("document.querySelectorAll('.cell').length") < 120
                if scroll == "undefined":  # those before the last are asked for when somebody scrolls there
                    asked = [url for url in page.requests() if "/executions?" in url]
                    assert len(asked) <= 3
                    assert not [url for url in asked if "outcomes=false" in url]
            await page.wait_for(f"{PANEL}('Files')")
            await page.wait_for(f"{PANEL}('early.txt')")
            await page.wait_for(f"{PANEL}('History')")  # of a cell that nobody has scrolled to
            await page.wait_for("document.querySelector('.history li')?.innerText.startsWith('Cell 2 added it')")


OVERLAPS = """
[...document.querySelectorAll('pre.code')].flatMap(code => {
  const label = code.querySelector('.language')?.getBoundingClientRect();
  const words = document.createRange();
  return label ? [...code.childNodes].filter(each => each.className !== 'language').flatMap(each => {
    words.selectNodeContents(each);
    return [...words.getClientRects()].filter(at =>
      at.left < label.right && at.right > label.left && at.top < label.bottom && at.bottom > label.top);
  }) : [];
}).length
"""
LONG_LINE = "const rain = 22.25; console.log('a line of another language that is wider than a pane of a narrow window')"


@pytest.mark.sample("pages")
def test_the_name_of_a_language_lies_over_no_code(service: RunningService, tmp_path: Path) -> None:
    asyncio.run(lies_over_none(service, tmp_path))


async def lies_over_none(service: RunningService, directory: Path) -> None:
    async with chromium(directory) as page:
        with service.client() as client, client.session("python") as session:
            session.run(LONG_LINE, language="typescript")
            session.command(f"echo '{LONG_LINE}'")
            await page.ask(
                "Emulation.setDeviceMetricsOverride", width=400, height=800, deviceScaleFactor=1, mobile=False
            )
            await sign_in(page, service)
            for address in (f"#/sessions/{session.id}", f"#/compare/{session.id}/{session.id}"):
                await page.evaluate(f"location.hash = '{address}'")
                await page.wait_for("document.querySelector('.code-keyword')?.innerText === 'const'")
                await page.wait_for("document.querySelectorAll('pre.code').length === 2")
                assert await page.evaluate("document.querySelector('.language').innerText") == "typescript"
                assert await page.evaluate(OVERLAPS) == 0
        assert page.of("Runtime.exceptionThrown") == []
