"""JupyterLab in a browser: a person picks the agent's live session, and plots with what the agent left in it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.browser.chromium import Page, chromium
from tests.conformance.jupyter.conftest import Agents
from tests.conformance.jupyter.lab import answers, run_when_idle, running_lab, until

SCREENSHOT = "jupyterlab-attached.png"
"""Kept in the data directory, to be looked at."""
CELL = """\
import matplotlib.pyplot as plt
plt.plot([agent, agent + 1])
plt.title("what the agent left")
print("agent is", agent)"""
PICK = """
(id => {
  const select = document.querySelector(".jp-Dialog select");
  const group = [...select.querySelectorAll("optgroup")].find(each => each.label.startsWith("Connect"));
  const choice = [...group.children].find(each => each.value.includes(id));
  select.value = choice.value;
  select.dispatchEvent(new Event("change", {bubbles: true}));
  document.querySelector(".jp-Dialog-button.jp-mod-accept").click();
  return group.children.length;
})
"""


@pytest.fixture
def lab(
    client_environment: Callable[[str], Path], lab_configuration: Path, tmp_path: Path
) -> Iterator[Callable[[str], str]]:
    with running_lab(client_environment("jupyterlab"), lab_configuration, tmp_path, CELL) as address:
        yield address


async def work(page: Page, url: str, session_id: str, picture: Path) -> list[str]:
    """Open the notebook, pick the live kernel, run the cell; what its outputs say, once there is a plot."""
    await page.visit(url)
    await until(lambda: page.evaluate("!!document.querySelector('.jp-Dialog select')"))
    assert await page.evaluate(f"{PICK}({json.dumps(session_id)})") == 1
    return await run_when_idle(page, picture)


@pytest.mark.sample("clients")
@pytest.mark.timeout(900)
def test_a_person_plots_with_the_agents_variable(
    agents: Agents, lab: Callable[[str], str], environments_dir: Path, tmp_path: Path
) -> None:
    picture = environments_dir.parent / SCREENSHOT

    async def look() -> list[str]:
        await until(lambda: answers(lab("api/status")))
        async with chromium(tmp_path / "browser") as page:
            return await work(page, lab("lab/tree/look.ipynb"), agents.id, picture)

    said = asyncio.run(look())
    assert said[0] == "agent is 41\n"
    assert picture.stat().st_size > 10_000
    assert agents.printed("print(plt.__name__)") == "matplotlib.pyplot\n"
