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
)
LOOK = """
Object.fromEntries([...document.querySelectorAll('article')].map((each, number) => [number, {
  kind: each.className,
  height: each.getBoundingClientRect().height,
  overflows: each.scrollWidth > each.clientWidth,
  text: each.innerText,
  pictures: [...each.querySelectorAll('img')].map(img => [img.naturalWidth, img.naturalHeight]),
  rows: each.querySelectorAll('tbody tr').length,
}]))
"""


@pytest.fixture(scope="module")
def seen(service: RunningService, tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """The cells of the page in order; its picture is `page.png` in the tests' directory."""
    with service.client() as client:
        with client.session("python") as session:
            for each in CODE:
                session.run(each)
            session.command("ls -la / | head -4; exit 3")
        url = f"{service.url}/v1/sessions/{session.id}/notebook?format=html"
        return asyncio.run(looked(url, service.token, tmp_path_factory.mktemp("page")))


async def looked(url: str, token: str, directory: Path) -> list[dict[str, Any]]:
    async with chromium(directory) as page:
        await page.visit(url, Authorization=f"Bearer {token}")
        await page.screenshot(directory / "page.png")
        return list((await page.evaluate(LOOK)).values())


def one(seen: list[dict[str, Any]], word: str) -> dict[str, Any]:
    (found,) = [cell for cell in seen if word in cell["text"]]
    return found


def test_every_cell_and_note_takes_its_place(seen: list[dict[str, Any]]) -> None:
    assert seen[0]["kind"] == seen[-1]["kind"] == "sandcell-note"
    assert [each["kind"] for each in seen[1:-1]] == ["sandcell-cell"] * 6
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
