"""JupyterLab in a browser: a person picks the agent's live session, and plots with what the agent left in it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import subprocess
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import nbformat
import pytest

from tests.browser.chromium import Page, chromium
from tests.conformance.jupyter.conftest import Agents
from tests.doubles.server_process import free_port

SECONDS = 600
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
SHIFT = 8
ENTER = {"key": "Enter", "code": "Enter", "modifiers": SHIFT, "windowsVirtualKeyCode": 13}


@pytest.fixture
def lab(
    client_environment: Callable[[str], Path], lab_configuration: Path, tmp_path: Path
) -> Iterator[Callable[[str], str]]:
    """A JupyterLab with the configuration of `sandcell attach` and one notebook: the address of a path in it."""
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(CELL)])
    (tmp_path / "files").mkdir()
    nbformat.write(notebook, tmp_path / "files/look.ipynb")
    port = free_port()
    flags = [f"--ServerApp.port={port}", "--ServerApp.port_retries=0", "--ServerApp.open_browser=False", "--allow-root"]
    flags += ["--IdentityProvider.token=lab", f"--ServerApp.root_dir={tmp_path / 'files'}"]
    variables = {**os.environ, "HOME": str(tmp_path), "JUPYTER_CONFIG_PATH": str(lab_configuration)}
    program = client_environment("jupyterlab") / "bin/jupyter-lab"
    with (tmp_path / "lab.log").open("w") as log:
        process = subprocess.Popen([program, *flags], env=variables, stdout=log, stderr=log)
        try:
            yield lambda path: f"http://127.0.0.1:{port}/{path}?token=lab"
        finally:
            process.terminate()
            try:
                assert process.wait(SECONDS) == 0
            finally:
                process.kill()


async def until(look: Callable[[], Awaitable[Any]]) -> Any:
    """What a look finds once it finds something."""
    async with asyncio.timeout(SECONDS):
        while not (found := await look()):
            await asyncio.sleep(0.1)
    return found


async def answers(url: str) -> bool:
    async with httpx.AsyncClient(trust_env=False) as http:
        with contextlib.suppress(httpx.TransportError):
            return (await http.get(url)).is_success
    return False


async def run_first_cell(page: Page) -> bool:
    """Press Shift-Enter in it, as a person does again when the page was not ready; whether it runs."""
    await page.evaluate("document.querySelector('.jp-CodeCell .cm-content').focus()")
    for kind in ("keyDown", "keyUp"):
        await page.ask("Input.dispatchKeyEvent", type=kind, **ENTER)
    await asyncio.sleep(1)
    runs = "!document.querySelector('.jp-CodeCell .jp-InputPrompt').innerText.startsWith('[ ]')"
    return bool(await page.evaluate(runs))


async def work(page: Page, url: str, session_id: str, picture: Path) -> list[str]:
    """Open the notebook, pick the live kernel, run the cell; what its outputs say, once there is a plot."""
    await page.visit(url)
    await until(lambda: page.evaluate("!!document.querySelector('.jp-Dialog select')"))
    assert await page.evaluate(f"{PICK}({json.dumps(session_id)})") == 1
    # Without a kernel the page is idle too, and a key then makes it ask for a new one in the place of the chosen one.
    named = "!/^(No Kernel)?$/.test(document.querySelector('.jp-Toolbar-kernelName')?.innerText.trim() ?? '')"
    idle = "document.querySelector('.jp-Notebook-ExecutionIndicator')?.dataset.status === 'idle'"
    await until(lambda: page.evaluate(f"!document.querySelector('.jp-Dialog') && {named} && {idle}"))
    await until(lambda: run_first_cell(page))
    await until(lambda: page.evaluate("document.querySelector('.jp-OutputArea-output img')?.naturalWidth"))
    await page.screenshot(picture)
    said = "[...document.querySelectorAll('.jp-OutputArea-output')].map(each => each.innerText)"
    found: list[str] = await page.evaluate(said)
    return found


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
