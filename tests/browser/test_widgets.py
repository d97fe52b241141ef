"""Widgets in the console show as the kernel says they are: as a cell runs, after it, when all has ended. They move."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
from pathlib import Path

import nbformat
import pytest

from tests.browser.chromium import DEADLINE_SECONDS, Page, chromium
from tests.browser.test_console import SHOWN, sign_in
from tests.browser.test_console_pages import fill, press
from tests.running_service import RunningService

PROGRESS = """
import os, time
from tqdm.notebook import tqdm
for step in tqdm(range(3), desc='rain', mininterval=0):
    while not os.path.exists(f'go{step}'):
        time.sleep(0.05)
"""
CONTROLS = """
import ipywidgets as w
level = w.FloatSlider(value=2.5, max=10, description='level')
where = w.Dropdown(options=['Oslo', 'Bergen'], value='Bergen')
w.VBox([level, w.Label('of <b>water</b>'), w.HTML('<i>rising</i>'), where])
"""
STRANGE = """
from traitlets import Unicode
class Map(w.DOMWidget):
    _model_name = Unicode('MapModel').tag(sync=True)
    _model_module = Unicode('maps <b>').tag(sync=True)
    _view_name = Unicode('MapView').tag(sync=True)
    _view_module = Unicode('maps <b>').tag(sync=True)
Map()
"""
BAR = "document.querySelector('[role=progressbar]')?.ariaValueNow"
BODY = "document.body.innerText"


@pytest.mark.sample("pages")
def test_widgets_move_while_a_cell_runs_and_stay_as_they_were(service: RunningService, tmp_path: Path) -> None:
    asyncio.run(moves(service, tmp_path))


async def moves(service: RunningService, directory: Path) -> None:
    async with chromium(directory) as page:
        with service.client() as client, client.session("python") as session:
            await sign_in(page, service)
            await page.evaluate(f"location.hash = '#/sessions/{session.id}'")
            session.submit(PROGRESS)
            await page.in_frame("widgets", f"{BAR} === '0' && {BODY}.includes('rain:')")
            session.upload("go0", b"")
            await page.in_frame("widgets", f"{BAR} === '1' && {BODY}.includes('33%')")
            await page.screenshot(directory / "progress.png")
            session.upload("go1", b"")
            session.upload("go2", b"")
            await page.in_frame("widgets", f"{BAR} === '3' && {BODY}.includes('100%')")
            session.run(CONTROLS)
            await page.in_frame(
                "widgets", f"document.querySelector('input[type=range]')?.value === '2.5' && {BODY}.includes('2.50')"
            )
            session.run("level.value = 7")  # by another cell
            await page.in_frame(
                "widgets", f"document.querySelector('input[type=range]')?.value === '7' && {BODY}.includes('rising')"
            )
            session.run(STRANGE)
            await page.in_frame(
                "widgets", f"{BODY}.includes('A widget of the package maps <b>, which shows in JupyterLab')"
            )
            session.run("import pandas as pd\npd.DataFrame({'mm': [1.5]}).style.format('{:.2f} mm')")
            await page.in_frame("output", f"{BODY}.includes('1.50 mm')")
            await page.screenshot(directory / "widgets.png")
            notebook = session.notebook()
        await page.evaluate("location.hash = '#/'")
        await page.wait_for("document.querySelector('h1')?.innerText === 'Sessions'")
        await page.evaluate(f"location.hash = '#/sessions/{session.id}'")
        await page.wait_for(f"({SHOWN}).includes('level.value') && document.body.innerText.includes('Session ended: ')")
        await page.in_frame("widgets", f"{BAR} === '3' && {BODY}.includes('100%')")
        assert page.of("Runtime.exceptionThrown") == []
    require_widgets(notebook)


MOVED = """
import ipywidgets as w
level, shown, go = w.IntSlider(max=10, description='level'), w.Label(), w.Button(description='Go')
name, where = w.Text(description='name'), w.Dropdown(options=['Oslo', 'Bergen'], description='where')
for each in (level, name, where):
    each.observe(lambda change: setattr(shown, 'value', f'now {change.new}'), 'value')
go.on_click(lambda _: print('it went'))
w.VBox([level, name, where, go, shown])
"""
SLIDER = "document.querySelector('input[type=range]')"
HOSTILE = """(models => {
  const slider = models.find(each => each.kind === 'range').model;
  const ask = move => parent.postMessage({move}, '*');
  ask({model: 'another', state: {value: 1}});
  ask({model: slider, state: {_view_name: 'x'}});
  ask({model: slider, state: {description: 'x'}});
  ask({model: slider, state: {value: {deep: 1}}});
  ask({model: slider, state: {value: 'x'.repeat(100_000)}});
  ask({model: slider, state: {value: 1, index: 2}});
  ask({model: slider, event: 'click'});
  ask({model: slider, code: 'print(1)', event: 'execute'});
  for (const odd of [null, 1, 'x', [], {}]) ask(odd);
  for (let n = 0; n < 500; n += 1) ask({model: slider, state: {value: n % 10}});
  ask({model: slider, state: {value: 9}});
  parent.postMessage({height: 333}, '*');
  return true;
})([...document.querySelectorAll('[data-key]')].map(each => ({model: each.dataset.key.split(' ')[0], kind: each.type})))
"""
"""What a frame asks for that another has taken over: only new values of a widget that it shows are sent on."""
HEARS = "addEventListener('message', ({data}) => { if (data?.height === 333) window.heardAll = true; })"
"""The last of what that frame says has come to the page. The height lasts only until it is drawn again."""
MOVES = "Network.requestWillBeSent"
PAUSE_SECONDS = 3.0
"""Between two clicks."""


@pytest.mark.sample("pages")
def test_widgets_are_moved(service: RunningService, tmp_path: Path) -> None:
    asyncio.run(are_moved(service, tmp_path))


async def are_moved(service: RunningService, directory: Path) -> None:
    async with chromium(directory) as page:
        with service.client() as client, client.session("python") as session:
            await sign_in(page, service)
            run = session.submit(MOVED)
            await page.evaluate(f"location.hash = '#/sessions/{session.id}'")
            await page.in_frame("widgets", f"{SLIDER}?.disabled === false")
            await click(page, "widgets", SLIDER, f"{BODY}.includes('now 5') && document.activeElement === {SLIDER}")
            # It was drawn again, and has the focus; one step by a key does the same.
            await page.in_frame("widgets", f"({SLIDER}.stepUp(), {SLIDER}.dispatchEvent(new Event('change')), true)")
            await page.in_frame("widgets", f"{BODY}.includes('now 6') && document.activeElement === {SLIDER}")
            await page.in_frame("widgets", WRITE)
            await page.in_frame("widgets", f"{BODY}.includes('now Ada')")
            await page.in_frame("widgets", f"({CHOOSE}, true)")
            await page.in_frame("widgets", f"{BODY}.includes('now Bergen')")
            await page.in_frame("widgets", "(document.querySelector('button').click(), true)")
            await page.wait_for(f"({SHOWN}).includes('Came after the end:')")
            values = session.run("level.value, name.value, where.value").text
            assert values == "(6, 'Ada', 'Bergen')"
            await page.screenshot(directory / "moved.png")

            slider = await page.in_frame("widgets", f"{SLIDER}?.dataset.key.split(' ')[0]")
            session.move_widget(run.id, slider, {"value": 2})  # by somebody else
            await page.in_frame("widgets", f"{BODY}.includes('now 2') && {SLIDER}.value === '2'")

            page.events.clear()
            await page.in_frame("widgets", HOSTILE)
            await page.in_frame("widgets", f"{BODY}.includes('now 9')")
            asked = [
                json.loads(each["request"]["postData"])
                for each in page.of(MOVES)
                if each["request"]["method"] == "POST"
            ]
            assert 1 <= len(asked) < 50
            assert all(each.keys() == {"model_id", "state"} and each["state"].keys() == {"value"} for each in asked)
            assert all(type(each["state"]["value"]) is int for each in asked)

            running = session.submit("open('begun', 'w'); import time; time.sleep(600)")
            await page.wait_for("!!document.querySelector('.cell.running')")
            await page.in_frame("widgets", "(document.querySelector('button').click(), true)")
            await page.wait_for("document.body.innerText.includes('its widgets are moved between cells')")
            session.interrupt_execution(running.id)
            session.wait(running.id)
            await page.in_frame("widgets", f"{SLIDER}?.disabled === false")
            await stays_for_who_may_look(
                page, service, client.create_token("admin", "looks", scope="read").token, session.id
            )
            assert session.get_execution(run.id).late
        assert page.of("Runtime.exceptionThrown") == []


CHOOSE = (
    "(made => { made.selectedIndex = 1; made.dispatchEvent(new Event('change')); })(document.querySelector('select'))"
)
WRITE = """(made => {
  made.focus(); made.value = 'Ada';
  for (const each of ['input', 'change']) made.dispatchEvent(new Event(each, {bubbles: true}));
  return true;
})(document.querySelector('input[type=text]'))"""
PLACE = "(at => [at.left + at.width / 2, at.top + at.height / 2])({element}.getBoundingClientRect())"


async def click(page: Page, kind: str, element: str, until: str) -> None:
    """Click in the middle of an element in a frame, as a mouse does, until that has come of it.

    A browser drops a click now and then on a frame that has only just appeared, before any script hears of it.
    """
    frame = f"document.querySelector('iframe.{kind}')"
    async with asyncio.timeout(DEADLINE_SECONDS):
        while True:
            left, top = await page.evaluate(f"(at => [at.left, at.top])({frame}.getBoundingClientRect())")
            x, y = await page.in_frame(kind, PLACE.format(element=element))
            for what in ("mousePressed", "mouseReleased"):
                await page.ask(
                    "Input.dispatchMouseEvent", type=what, x=left + x, y=top + y, button="left", clickCount=1
                )
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(PAUSE_SECONDS):
                    await page.in_frame(kind, until)
                    return


async def stays_for_who_may_look(page: Page, service: RunningService, token: str, session_id: str) -> None:
    await press(page, "Sign out")
    await page.visit(service.url)
    await fill(page, "Token", token)
    await press(page, "Sign in")
    await page.evaluate(f"location.hash = '#/sessions/{session_id}'")
    await page.in_frame("widgets", f"{SLIDER}?.disabled === true && {BODY}.includes('for who may run code')")
    page.events.clear()
    await page.evaluate(HEARS)
    # The browser may keep the frame of the page before, which is another one: its slider could be moved.
    await page.in_frame("widgets", f"{SLIDER}?.disabled === true && {HOSTILE}")
    await page.wait_for("window.heardAll")
    assert [each for each in page.of(MOVES) if each["request"]["method"] == "POST"] == []


def require_widgets(notebook: bytes) -> None:
    """What other tools show of them: nbconvert's page has the state that its widgets' scripts look for."""
    from nbconvert.exporters import HTMLExporter  # it takes long, and other modules import this one

    shown, _ = HTMLExporter().from_notebook_node(nbformat.reads(notebook.decode(), as_version=4))
    (state,) = re.findall(r'<script type="application/vnd.jupyter.widget-state\+json">(.*?)</script>', shown, re.DOTALL)
    models = json.loads(state.replace("<\\/", "</"))["state"].values()
    values = {each["model_name"]: each["state"].get("value") for each in models}
    assert (values["FloatProgressModel"], values["FloatSliderModel"]) == (3, 7)
    views = re.findall(r'<script type="application/vnd.jupyter.widget-view\+json">(.*?)</script>', shown, re.DOTALL)
    assert len(views) == 3
