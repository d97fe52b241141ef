"""A JupyterLab that shows a service's kernels, and what a person does in a browser with a notebook in it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import nbformat

from tests.browser.chromium import Page
from tests.doubles.server_process import free_port

SECONDS = 600
SHIFT = 8
ENTER = {"key": "Enter", "code": "Enter", "modifiers": SHIFT, "windowsVirtualKeyCode": 13}


@contextmanager
def running_lab(
    environment: Path, configuration: Path, place: Path, cell: str, **metadata: Any
) -> Iterator[Callable[[str], str]]:
    """A JupyterLab with the configuration of `sandcell attach` and one notebook: the address of a path in it."""
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell)], metadata=metadata)
    (place / "files").mkdir()
    nbformat.write(notebook, place / "files/look.ipynb")
    port = free_port()
    flags = [f"--ServerApp.port={port}", "--ServerApp.port_retries=0", "--ServerApp.open_browser=False", "--allow-root"]
    flags += ["--IdentityProvider.token=lab", f"--ServerApp.root_dir={place / 'files'}"]
    variables = {**os.environ, "HOME": str(place), "JUPYTER_CONFIG_PATH": str(configuration)}
    with (place / "lab.log").open("w") as log:
        process = subprocess.Popen([environment / "bin/jupyter-lab", *flags], env=variables, stdout=log, stderr=log)
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


async def run_when_idle(page: Page, picture: Path) -> list[str]:
    """Run the cell once the notebook has an idle kernel; what its outputs say, once there is a plot."""
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
