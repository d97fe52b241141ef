"""Kernels of jupyter_client in sandboxes: run, restarted, interrupted, and removed whatever their program does."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import nbformat
import psutil
import pytest
from jupyter_client.blocking.client import BlockingKernelClient
from jupyter_client.manager import KernelManager
from nbclient import NotebookClient

from kernels.errors import SandboxFailed
from kernels.provisioner import KERNELSPEC
from tests.conftest import REPOSITORY

SECONDS = 120
STARTS_A_KERNEL = """
import time
from jupyter_client.manager import KernelManager
manager = KernelManager(kernel_name="sandcell-python")
manager.start_kernel()
print("started", flush=True)
time.sleep(300)
"""


@pytest.fixture
def manager(all_gone: Callable[[], None]) -> Iterator[KernelManager]:
    manager = KernelManager(kernel_name=KERNELSPEC)
    manager.start_kernel()
    yield manager
    if manager.has_kernel:
        manager.shutdown_kernel(now=True)


@pytest.fixture
def client(manager: KernelManager) -> Iterator[BlockingKernelClient]:
    client = manager.client()
    client.start_channels()
    client.wait_for_ready(timeout=SECONDS)
    yield client
    client.stop_channels()


def printed(client: BlockingKernelClient, code: str) -> tuple[str, dict[str, object]]:
    """What code printed, and the reply's content."""
    texts: list[str] = []

    def hear(message: dict[str, object]) -> None:
        if message["msg_type"] == "stream":
            texts.append(message["content"]["text"])  # type: ignore[index]

    reply = client.execute_interactive(code, timeout=SECONDS, output_hook=hear)
    return "".join(texts), reply["content"]


def test_nbclient_executes_a_notebook_in_a_sandbox(all_gone: Callable[[], None], tmp_path: Path) -> None:
    (tmp_path / "secret.txt").write_text("of the host")
    code = [
        "x = 41",
        "import os\nprint(x + 1, os.getcwd(), os.getuid(), os.listdir())",
        "print('A_HOST' in os.environ)",
    ]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(each) for each in code])
    resources = {"metadata": {"path": str(tmp_path)}}
    NotebookClient(notebook, kernel_name=KERNELSPEC, timeout=SECONDS, resources=resources).execute(
        env={**os.environ, "A_HOST": "variable"}
    )
    # nbclient makes an output of each message, and a print may come in several.
    shown = ["".join(output.text for output in cell.outputs) for cell in notebook.cells[1:]]
    assert shown == ["42 /workspace 1000 []\n", "False\n"]
    nbformat.validate(notebook)
    all_gone()


def test_a_restart_is_a_blank_kernel_that_old_clients_reach(
    manager: KernelManager, client: BlockingKernelClient, sandboxes: Callable[[], list[str]]
) -> None:
    printed(client, "x = 41; open('kept.txt', 'w').write('kept')")
    key, before = manager.session.key, sandboxes()
    manager.restart_kernel()
    client.wait_for_ready(timeout=SECONDS)
    assert printed(client, "print('x' in globals(), open('kept.txt').read())")[0] == "False kept\n"
    assert (manager.session.key, sandboxes()) == (key, before)


def test_an_interrupt_stops_what_runs(manager: KernelManager, client: BlockingKernelClient) -> None:
    # ipykernel aborts what it is sent just after it has answered an error, unless it was told not to.
    asked = client.execute("import time\nprint('runs')\ntime.sleep(300)", stop_on_error=False)
    while "runs" not in client.get_iopub_msg(timeout=SECONDS)["content"].get("text", ""):
        pass
    manager.interrupt_kernel()
    while (reply := client.get_shell_msg(timeout=SECONDS))["parent_header"]["msg_id"] != asked:
        pass  # an answer to one of the questions whether it is ready
    assert reply["content"]["ename"] == "KeyboardInterrupt"
    assert printed(client, "print(1)")[0] == "1\n"


def test_a_kernel_that_ends_by_itself_is_known_to_be_dead(manager: KernelManager, client: BlockingKernelClient) -> None:
    client.execute("import os\nos._exit(3)")
    give_up = time.monotonic() + SECONDS
    while manager.is_alive():
        assert time.monotonic() < give_up
        time.sleep(0.05)
    assert asyncio.run(manager.provisioner.poll()) == 3


def test_nothing_outlives_a_program_that_is_killed(
    sandboxes: Callable[[], list[str]], all_gone: Callable[[], None]
) -> None:
    program = started_program()
    assert len(sandboxes()) == 1
    program.kill()
    program.wait(SECONDS)
    all_gone()


def test_what_a_killed_keeper_left_goes_with_the_next_start(
    sandboxes: Callable[[], list[str]], all_gone: Callable[[], None]
) -> None:
    program = started_program()
    (keeper,) = psutil.Process(program.pid).children()
    keeper.kill()
    program.kill()
    program.wait(SECONDS)
    (left,) = sandboxes()
    manager = KernelManager(kernel_name=KERNELSPEC)
    manager.start_kernel()
    try:
        assert left not in sandboxes()
    finally:
        manager.shutdown_kernel(now=True)
    all_gone()


def test_a_keeper_that_is_asked_to_end_takes_its_sandbox_along(
    manager: KernelManager, all_gone: Callable[[], None]
) -> None:
    (keeper,) = [each for each in psutil.Process().children() if "kernels.keeper" in each.cmdline()]
    keeper.terminate()
    all_gone()
    give_up = time.monotonic() + SECONDS
    while manager.is_alive():
        assert time.monotonic() < give_up
        time.sleep(0.05)


def started_program() -> subprocess.Popen[str]:
    """A program of its own that has started a kernel."""
    program = subprocess.Popen(
        [sys.executable, "-c", STARTS_A_KERNEL], cwd=REPOSITORY, stdout=subprocess.PIPE, text=True
    )
    assert program.stdout is not None
    with program.stdout:
        assert program.stdout.readline() == "started\n"
    return program


def test_what_is_missing_is_said(jupyter_path: Path, all_gone: Callable[[], None]) -> None:
    manager = KernelManager(kernel_name=KERNELSPEC)
    metadata = manager.kernel_spec.metadata["kernel_provisioner"]
    metadata["config"] = {**metadata["config"], "environment": "none-such"}
    with pytest.raises(SandboxFailed, match="sandcell environments build none-such"):
        manager.start_kernel()


def test_who_is_not_root_is_told_what_to_do() -> None:
    """In a process of its own, which gives root up once it has all its modules."""
    code = f"import os, kernels.provisioner as p; os.setuid({os.getuid() or 65_534}); p.require_root()"
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, timeout=SECONDS, check=False)
    assert "run this program as root (sudo)" in done.stderr
    assert done.returncode == 1
