"""Widgets in the console: they show as the kernel says they are, while a cell runs, after it and when all has ended."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path

import nbformat
import pytest
from nbconvert.exporters import HTMLExporter

from tests.browser.chromium import chromium
from tests.browser.test_console import SHOWN, sign_in
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
        await page.wait_for(
            f"({SHOWN}).includes('level.value') && document.body.innerText.includes('This session ended')"
        )
        await page.in_frame("widgets", f"{BAR} === '3' && {BODY}.includes('100%')")
        assert page.of("Runtime.exceptionThrown") == []
    require_widgets(notebook)


def require_widgets(notebook: bytes) -> None:
    """What other tools show of them: nbconvert's page has the state that its widgets' scripts look for."""
    shown, _ = HTMLExporter().from_notebook_node(nbformat.reads(notebook.decode(), as_version=4))
    (state,) = re.findall(r'<script type="application/vnd.jupyter.widget-state\+json">(.*?)</script>', shown, re.DOTALL)
    models = json.loads(state.replace("<\\/", "</"))["state"].values()
    values = {each["model_name"]: each["state"].get("value") for each in models}
    assert (values["FloatProgressModel"], values["FloatSliderModel"]) == (3, 7)
    views = re.findall(r'<script type="application/vnd.jupyter.widget-view\+json">(.*?)</script>', shown, re.DOTALL)
    assert len(views) == 3
