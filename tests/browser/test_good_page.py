"""A session's page as a person sees it: every part is there and takes its place."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.browser.chromium import chromium
from tests.running_service import RunningService

CODE = (
    "x = 41\nprint(x + 1)",
    "import matplotlib.pyplot as plt\nplt.figure(figsize=(6, 2.5))\n"
    "plt.plot([0, 1, 4, 9, 16], 'o-')\nplt.title('Squares')\nplt.show()",
    "import pandas as pd\npd.DataFrame({'city': ['Oslo', 'Bergen'], 'mm': [1.5, 22.25]})",
    "import sys\nprint('careful', file=sys.stderr)\nprint('\\x1b[32mgreen\\x1b[0m and 50%\\r100% done')",
    "def half(n):\n    return 1 / n\n\nhalf(0)",
    "print('w' * 5000)\nfor n in range(200): print('row', n)",
    "display({'text/latex': r'$\\displaystyle \\frac{1}{n} \\sum_i x_i$'}, raw=True)",
)
LOOK = """
Object.fromEntries([...document.querySelectorAll('article')].map((each, number) => [number, {
  kind: each.className,
  height: each.getBoundingClientRect().height,
  overflows: each.scrollWidth > each.clientWidth,
  text: each.innerText,
  pictures: [...each.querySelectorAll('img')].map(img => [img.naturalWidth, img.naturalHeight]),
  rows: each.querySelectorAll('tbody tr').length,
  formulas: [...each.querySelectorAll('math')].map(math => math.getBoundingClientRect().height),
  language: each.querySelector('.sandcell-language')?.innerText,
}]))
"""


WHOLE = """({
  title: document.title,
  headline: document.querySelector('h1').innerText,
  entries: [...document.querySelectorAll('nav a')].map(link => !!document.querySelector(link.getAttribute('href'))),
  scrolls: document.documentElement.scrollWidth > innerWidth,
  colours: [getComputedStyle(document.body).backgroundColor, getComputedStyle(document.body).color],
})"""
WAYS = {"light": ("light", 1400), "dark": ("dark", 1400), "narrow": ("light", 400)}


@pytest.fixture(scope="module")
def looks(service: RunningService, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The page in each way, and its cells in order; its pictures are in the tests' directory."""
    with service.client() as client:
        with client.session("python", name="rain in <Norway>") as session:
            for each in CODE:
                session.run(each)
            session.run("const mm: number = 22.25", language="typescript")
            session.command("ls -la / | head -4; exit 3")
        url = f"{service.url}/v1/sessions/{session.id}/notebook?format=html"
        return asyncio.run(looked(url, service.token, tmp_path_factory.mktemp("page")))


async def looked(url: str, token: str, directory: Path) -> dict[str, Any]:
    async with chromium(directory) as page:
        await page.visit(url, Authorization=f"Bearer {token}")
        found: dict[str, Any] = {}
        for way, (scheme, width) in WAYS.items():
            await page.ask("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
            await page.ask(
                "Emulation.setDeviceMetricsOverride", width=width, height=1000, deviceScaleFactor=1, mobile=False
            )
            found[way] = await page.evaluate(WHOLE)
            await page.screenshot(directory / f"{way}.png", whole=True)
        found["cells"] = list((await page.evaluate(LOOK)).values())
        return found


@pytest.fixture(scope="module")
def seen(looks: dict[str, Any]) -> list[dict[str, Any]]:
    """The cells, on a narrow screen."""
    return list(looks["cells"])


def one(seen: list[dict[str, Any]], word: str) -> dict[str, Any]:
    (found,) = [cell for cell in seen if word in cell["text"]]
    return found


def test_every_cell_and_note_takes_its_place(seen: list[dict[str, Any]]) -> None:
    assert seen[0]["kind"] == seen[-1]["kind"] == "sandcell-note"
    assert [each["kind"] for each in seen[1:-1]] == ["sandcell-cell"] * 9
    assert all(each["height"] > 20 for each in seen)
    assert not any(each["overflows"] for each in seen)


def test_each_part_shows_what_it_is(seen: list[dict[str, Any]]) -> None:
    ((width, height),) = one(seen, "Squares")["pictures"]
    assert width > 300
    assert height > 100
    assert one(seen, "Bergen")["rows"] == 2
    assert "ZeroDivisionError: division by zero" in one(seen, "half(0)")["text"]
    assert "exit code 3" in one(seen, "ls -la")["text"]
    assert "ended" in seen[-1]["text"]
    assert one(seen, "const mm")["language"] == "TypeScript"
    ((height),) = one(seen, "text/latex")["formulas"]
    assert height > 15


def test_a_long_output_is_folded_and_a_long_line_scrolls(seen: list[dict[str, Any]], looks: dict[str, Any]) -> None:
    cell = one(seen, "'row'")
    assert "177 more lines" in cell["text"]
    assert cell["height"] < 1000
    assert not any(looks[way]["scrolls"] for way in WAYS)


def test_the_page_is_named_after_its_session_and_lists_what_is_in_it(looks: dict[str, Any]) -> None:
    for way in WAYS:
        assert looks[way]["title"] == looks[way]["headline"] == "rain in <Norway>"
        assert looks[way]["entries"] == [True] * 9


def test_the_page_is_dark_for_readers_who_like_it_dark(looks: dict[str, Any]) -> None:
    assert looks["light"]["colours"] == looks["narrow"]["colours"] == ["rgb(255, 255, 255)", "rgb(28, 33, 38)"]
    assert looks["dark"]["colours"] == ["rgb(20, 23, 26)", "rgb(227, 231, 235)"]
