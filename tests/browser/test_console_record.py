"""A session's record in the console: replayed and held against another; taken over, attached to; files as they look."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import png
import pytest

from sandcell import Session
from tests.browser.chromium import DEADLINE_SECONDS, Page, chromium
from tests.browser.test_console import NOTES, PANEL, SHOWN, TEXT, run, sign_in
from tests.browser.test_console_pages import OPENED, fill, go, press
from tests.running_service import RunningService

CELLS = (
    "print('one\\ntwo\\nthree')",
    "import os\nprint(f\"the same\\n{os.path.exists('made')}\")",  # a file that is no part of the record
    "print(f'\\x1b[31m{os.urandom(4).hex()}\\nred too\\x1b[0m')",
)
PAIRS = "[...document.querySelectorAll('.pair')]"
COLOUR_OF = "each => `${each.parentElement.localName}, ${each.getAttribute('style')}`"
TRANSFER = "document.querySelector('.panel progress')"
PREVIEW = "document.querySelector('.preview-body')"
PLOT_LINE = (31, 119, 180)
"""What matplotlib draws its first line in."""
FILES = """
import base64, json
open('rain.csv', 'w').write('city,mm\\n' + ''.join(f'"Oslo, {n}",{n / 2}\\n' for n in range(450)))
open('dot.png', 'wb').write(base64.b64decode(
    'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=='))
open('notes.txt', 'w').write('héllo <b>there</b>')
open('page.html', 'w').write('<h3>A page</h3><script>parent.document.title = "hacked"</script>')
open('raw.bin', 'wb').write(bytes(range(256)))
cell = {'cell_type': 'code', 'source': ['40 + 2'], 'outputs': [
    {'output_type': 'execute_result', 'data': {'text/plain': '42'}}, {'output_type': 'stream', 'text': {}}, None]}
json.dump({'cells': [cell, {'cell_type': 'markdown', 'source': 'A *title*'}, 7]}, open('work.ipynb', 'w'))
import matplotlib.pyplot as plt
from matplotlib.backends.backend_pdf import PdfPages
with PdfPages('two.pdf') as pdf:
    for title in ('Rain', 'Sun'):
        plt.figure(figsize=(6, 3)).suptitle(title)
        plt.plot([0, 1, 4, 9])
        pdf.savefig()
        plt.close()
open('broken.pdf', 'w').write('%PDF-1.7 and nothing else')
"""


def colours(picture: Path) -> set[tuple[int, int, int]]:
    """The colours of a picture's points."""
    _width, _height, rows, _more = png.Reader(bytes=picture.read_bytes()).asRGB8()
    return {(row[at], row[at + 1], row[at + 2]) for row in map(bytes, rows) for at in range(0, len(row), 3)}


async def choose(page: Page, name: str) -> None:
    """Of what is behind More."""
    await page.wait_for("!!document.querySelector('.menu summary')")
    await page.evaluate("document.querySelector('.menu').open = true")
    await press(page, name)


async def open_session(page: Page, session: Session) -> None:
    await go(page, f"#/sessions/{session.id}")
    await page.wait_for("!!document.querySelector('.menu')")


@pytest.mark.sample("pages")
def test_a_record_is_replayed_and_a_fork_is_held_against_it(service: RunningService, tmp_path: Path) -> None:
    asyncio.run(replays_and_compares(service, tmp_path))


async def replays_and_compares(service: RunningService, directory: Path) -> None:
    async with chromium(directory) as page:
        with service.client() as client, client.session("python", name="origin") as session:
            session.upload("made", b"by a person")
            for code in CELLS:
                session.run(code)
            await sign_in(page, service)
            await open_session(page, session)
            await choose(page, "Replay its notebook")
            await page.wait_for("location.hash.startsWith('#/replays/')")
            await page.wait_for(f"{TEXT}.includes('Not the same')")
            await page.wait_for(f"{PAIRS}.length === 3")
            states = await page.evaluate(f"{PAIRS}.map(each => each.querySelector('.state').textContent)")
            assert states[:2] == ["same", "different"]
            # The cells of both sides are asked for when the replay is known, each by itself.
            sides = f"[...{PAIRS}[1].querySelectorAll('.side')]"
            marked = "each => [...each.querySelectorAll('mark')].map(m => m.innerText.trim()).join()"
            await page.wait_for(f"{sides}.map({marked}).join() === 'True,False'")
            assert await page.evaluate(f"{sides}.every(each => each.innerText.includes('the same'))")
            await page.screenshot(directory / "replay.png")
            await open_session(page, session)
            await choose(page, "Replay it with its files")
            await page.wait_for(f"{TEXT}.includes('All the same') && {PAIRS}.length === 3")

            fork = client.start_session(name="fork", replay_of=session.id)
            client.run(fork.id, "'only here'")
            await open_session(page, session)
            await choose(page, "Compare with another")
            await fill(page, "The other session", fork.id)
            await press(page, "Compare")
            await page.wait_for(f"{TEXT}.includes('4 cells, 2 differ')")
            words = f"{PAIRS}.map(each => each.querySelector('.state').textContent).join()"
            # Of one of them there may be more before the other is listed.
            await page.wait_for(f"{words} === 'same,same,different,only on the right'")
            shown = await page.evaluate(f"[...{PAIRS}[2].querySelectorAll('.side pre')].map(each => each.textContent)")
            assert [(len(each), each[8:]) for each in shown] == [(17, "\nred too\n")] * 2  # no codes of colours
            coloured = await page.evaluate(f"[...{PAIRS}[2].querySelectorAll('.side span[style]')].map({COLOUR_OF})")
            assert coloured == ["mark, color: var(--ansi-1);", "pre, color: var(--ansi-1);"] * 2
            await page.screenshot(directory / "compare.png")
            await page.evaluate("document.querySelector('[type=checkbox]').click()")
            await page.wait_for(f"{PAIRS}.length === 2")
            client.stop_session(fork.id)
        assert page.of("Runtime.exceptionThrown") == []


@pytest.mark.sample("pages")
@pytest.mark.long
def test_a_fork_has_counterparts_from_where_it_began(service: RunningService, tmp_path: Path) -> None:
    asyncio.run(compares_fork(service, tmp_path))


async def compares_fork(service: RunningService, directory: Path) -> None:
    async with chromium(directory) as page:
        with service.client() as client, client.session("python", name="origin") as session:
            for code in ("a = 1", "a += 1", "a += 2", "a"):
                session.run(code)
            client.create_checkpoint(session.id)
            last = session.run("a * 10")
            session.run("'of the original'")
            fork = client.fork_session(session.id, cell=last.id, name="fork")
            assert fork.from_ is not None
            assert fork.from_.cells == 1  # it began from the checkpoint
            client.run(fork.id, "'of the fork'")
            await sign_in(page, service)
            for path in (f"{session.id}/{fork.id}", f"{fork.id}/{session.id}"):
                await go(page, f"#/compare/{path}")
                words = json.dumps(["before the fork"] * 4 + ["same", "other code"], separators=(",", ":"))
                # Of one of them there may be more before the other is listed.
                verdicts = f"{PAIRS}.map(each => each.querySelector('.state').textContent)"
                await page.wait_for(f"JSON.stringify({verdicts}) === {words!r}")
            client.stop_session(fork.id)
        assert page.of("Runtime.exceptionThrown") == []


@pytest.mark.sample("pages")
@pytest.mark.long
def test_of_a_long_comparison_a_part_is_in_the_page(service: RunningService, tmp_path: Path) -> None:
    asyncio.run(compares_many(service, tmp_path))


async def compares_many(service: RunningService, directory: Path) -> None:
    async with chromium(directory) as page:
        with service.client() as client, client.session("python") as session:
            for number in range(210):
                session.run(f"print({number})")
            await sign_in(page, service)
            await go(page, f"#/compare/{session.id}/{session.id}")
            await page.wait_for(f"{TEXT}.includes('210 cells, nothing differs')")
            assert await page.evaluate(f"{PAIRS}.length") == 200
            await press(page, "10 more cells")
            await page.wait_for(f"{PAIRS}.length === 210")
        assert page.of("Runtime.exceptionThrown") == []


@pytest.mark.sample("pages")
def test_a_person_takes_over_gives_back_and_attaches(service: RunningService, tmp_path: Path) -> None:
    asyncio.run(takes_over(service, tmp_path))


async def takes_over(service: RunningService, directory: Path) -> None:
    async with chromium(directory) as page:
        with service.client() as client, client.session("python") as session:
            session.run("seen = 1")
            await sign_in(page, service)
            await open_session(page, session)
            await press(page, "Take over")
            await page.wait_for(f"{TEXT}.includes('You have this session to yourself')")
            waiting = session.submit("seen + 1")
            assert waiting.why is not None
            assert waiting.why.startswith("admin has this session to themselves until ")
            await page.wait_for(f"({SHOWN}).includes('admin has this session to themselves')")
            await run(page, "print('by ' + 'a person')")
            await page.wait_for(f"({SHOWN}).includes('by a person')")
            assert client.get_execution(session.id, waiting.id).status == "queued"
            await press(page, "Timeline")
            await page.wait_for(
                "document.querySelector('canvas')?.ariaLabel.startsWith('Timeline: 2 executions, 0 deaths')"
            )
            await page.screenshot(directory / "lease.png")
            await press(page, "Give back")
            assert client.wait(session.id, waiting.id).status == "ok"
            await page.wait_for(f"!!{PRESSABLE}('Take over')")

            held = client.take_lease(session.id, name="Ada <i>")
            await page.wait_for(f"{TEXT}.includes('Ada <i> has this session to themselves')")
            await press(page, "End it")
            await page.wait_for(f"!!{PRESSABLE}('Take over')")
            assert held.id

            session.run("import os\nos._exit(3)")
            session.run("'in another kernel'")
            session.restart()
            said = f"{NOTES}.map(text => text.split(/[.,:]/)[0])"
            kernels = f"{said}.filter(each => /kernel/i.test(each)).join()"
            await page.wait_for(f"{kernels} === 'A new kernel,Restart of the kernel,Kernel generation 3'")
            assert await page.evaluate(f"{said}[0]") == "Session started in python"

            await press(page, "Attach")
            await page.wait_for(f"({OPENED}?.innerText ?? '').includes('Who may attach now')")
            line, address = [await page.evaluate(f"{OPENED}.querySelectorAll('input')[{at}].value") for at in (0, 1)]
            assert address.startswith(f"{service.url}/?token=sandcell_attach_")
            token = address.partition("=")[2]
            assert line == f"sandcell attach {session.id} --url {service.url} --token {token} --open"
            await page.screenshot(directory / "attach.png")
            await press(page, "Done")
            await page.wait_for(f"!{OPENED}")
            await press(page, "Attach")  # the same lines: no further token is made
            await page.wait_for(f"{OPENED}?.querySelectorAll('input')[1]?.value === {address!r}")
            assert len(client.list_attach_tokens(session.id).items) == 1
            await press(page, "Revoke admin")
            await page.wait_for(f"!{OPENED}.innerText.includes('Who may attach now')")
            assert not await page.evaluate(f"{OPENED}.innerText.includes('VS Code')")  # lines that count no longer
            (revoked,) = client.list_attach_tokens(session.id).items
            assert revoked.revoked_at is not None
        assert page.of("Runtime.exceptionThrown") == []


PRESSABLE = "(name => [...document.querySelectorAll('button')].find(b => b.innerText === name && !b.disabled))"


@pytest.mark.sample("pages")
def test_files_are_shown_as_what_they_are(service: RunningService, tmp_path: Path) -> None:
    asyncio.run(previews(service, tmp_path))


async def previews(service: RunningService, directory: Path) -> None:
    async def show(name: str, expected: str) -> None:
        await page.wait_for(f"{PANEL}({name!r})")
        await page.wait_for(f"({PREVIEW}?.innerText ?? '').includes({expected!r})")

    async def back() -> None:
        await press(page, "All files")
        await page.wait_for(f"!{PREVIEW}")

    async with chromium(directory) as page:
        with service.client() as client, client.session("python") as session:
            session.run(FILES)
            await sign_in(page, service)
            await open_session(page, session)
            await page.wait_for(f"{PANEL}('Files')")
            await show("rain.csv", "Rows 1 to 200 of 450")
            await page.screenshot(directory / "table.png")
            await press(page, "Later")
            await press(page, "Later")
            await page.wait_for(f"{PREVIEW}.innerText.includes('Oslo, 449')")
            await back()
            await show("notes.txt", "héllo <b>there</b>")
            await back()
            await show("work.ipynb", "42")
            assert await page.evaluate(f"{PREVIEW}.innerText.includes('40 + 2')")
            await back()
            await show("raw.bin", "This is not text")
            await back()
            await page.wait_for(f"{PANEL}('dot.png')")
            await page.wait_for(f"{PREVIEW}?.querySelector('img')?.naturalWidth === 1")
            await back()
            await page.evaluate("drawn = []; addEventListener('message', event => drawn.push(event.data.page))")
            await show("two.pdf", "2 pages")
            await page.wait_for("drawn.includes(1) && drawn.includes(2)")
            async with asyncio.timeout(DEADLINE_SECONDS):
                # What the frame has drawn comes to the window with one of its next pictures.
                await page.screenshot(directory / "pdf.png")
                while PLOT_LINE not in colours(directory / "pdf.png"):
                    await page.screenshot(directory / "pdf.png")
            await back()
            await show("broken.pdf", "could not be read as a PDF")
            await back()
            await page.wait_for(f"{PANEL}('page.html')")
            await page.wait_for(f"({PREVIEW}?.querySelector('iframe')?.offsetHeight ?? 60) !== 60")
            assert await page.evaluate("document.title") != "hacked"
            await press(page, "Link")
            await page.wait_for("document.querySelector('.panel .problem')?.innerText.length > 10")
            session.stop()
            await page.wait_for("document.body.innerText.includes('Session ended: ')")
            await page.wait_for(f"{PANEL}('Files')")
            await page.wait_for(f"{PANEL}('Files')")
            await page.wait_for(f"{TEXT}.includes('As they are in the store.')")
            await show("notes.txt", "héllo")
        assert page.of("Runtime.exceptionThrown") == []


@pytest.mark.sample("pages")
def test_an_upload_says_how_far_it_is_and_is_cancelled(service: RunningService, tmp_path: Path) -> None:
    asyncio.run(uploads(service, tmp_path))


async def uploads(service: RunningService, directory: Path) -> None:
    line = {"offline": False, "latency": 0, "downloadThroughput": -1}
    (directory / "large.bin").write_bytes(bytes(20_000_000))
    (directory / "small.txt").write_text("small")
    async with chromium(directory) as page:
        with service.client() as client, client.session("python") as session:
            await sign_in(page, service)
            await open_session(page, session)
            await page.wait_for(f"{PANEL}('Files')")
            await page.wait_for(f"{TEXT}.includes('No files here.')")
            await page.ask("Network.emulateNetworkConditions", **line, uploadThroughput=100_000)
            await page.drop(directory / "large.bin", "document.querySelector('.panel')")
            await page.wait_for(f"{TRANSFER}?.ariaLabel === 'Uploading large.bin' && {TRANSFER}.max === 20_000_000")
            before = await page.wait_for(f"{TRANSFER}.value")
            await press(page, "Archive")
            await page.wait_for(f"{TEXT}.includes('A transfer is under way')")
            await page.wait_for(f"{TRANSFER}.value > {before} && {TRANSFER}.value < 20_000_000")  # it goes on
            await press(page, "Cancel")
            await page.wait_for(f"!{TRANSFER} && !{TEXT}.includes('A transfer is under way')")
            await page.ask("Network.emulateNetworkConditions", **line, uploadThroughput=-1)
            await page.drop(directory / "small.txt", "document.querySelector('.panel')")
            await page.wait_for("document.querySelector('.tree')?.innerText.includes('small.txt')")
            assert [each.path for each in session.files()] == ["small.txt"]
        assert page.of("Runtime.exceptionThrown") == []


@pytest.mark.sample("pages")
@pytest.mark.long
def test_seventy_megabytes_of_output_stay_out_of_the_pages_memory(service: RunningService, tmp_path: Path) -> None:
    asyncio.run(stays_small(service, tmp_path))


async def stays_small(service: RunningService, directory: Path) -> None:
    with service.client() as client, client.session("python") as session:
        for number in range(300):
            session.run(f"print(('{number:03} ' + 'x' * 95 + '\\n') * 2_400)")
        async with chromium(directory) as page:
            await sign_in(page, service)
            await open_session(page, session)
            for number, scroll in ((300, "1e9"), (1, "0"), (300, "1e9"), (1, "0")):
                await page.evaluate(f"document.querySelector('.cells').scrollTop = {scroll}")
                cell = f"document.querySelector('[aria-posinset=\"{number}\"]')"
                await page.wait_for(f"{cell}?.innerText.includes('{number - 1:03} xx')")
            await page.ask("HeapProfiler.collectGarbage")
            used = await page.ask("Runtime.getHeapUsage")
            assert used["usedSize"] < 120_000_000
