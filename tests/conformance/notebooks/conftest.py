"""One recorded session's notebook, the tools in an environment of their own, and the kernelspec `sandcell-python`."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import nbformat
import pytest
from nbformat import NotebookNode

from tests import kernelspecs
from tests.conformance.notebooks import client_environment
from tests.running_service import RunningService

TOOL_SECONDS = 240
CELLS = (
    "import numpy as np, pandas as pd, matplotlib.pyplot as plt",
    "n = 3",
    "table = pd.DataFrame({'a': np.arange(n) / 7, 'b': list('wxyz')[:n]})\ntable",
    "fig, axes = plt.subplots()\naxes.plot(table['a'])\naxes.set_title('from the agent')\nplt.show()",
    "import os\nprint(sorted(os.listdir('.')), object())\nn * 14",
)


@pytest.fixture(scope="package")
def tools(environments_dir: Path) -> Path:
    """The directory with the tools' programs."""
    return client_environment.installed(environments_dir.parent) / "bin"


@pytest.fixture(scope="package")
def recorded(service: RunningService, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The notebook of a session, as it comes from the service: code, a command, an exception, a restart."""
    with service.client() as client, client.session() as session:
        for cell in CELLS:
            assert session.run(cell).status == "ok"
        session.command("echo from the shell > made.txt; cat made.txt")
        session.run("assert n == 4, 'n is 3'")
        data = session.notebook()
    path = tmp_path_factory.mktemp("recorded") / "history.ipynb"
    path.write_bytes(data)
    return path


@pytest.fixture(scope="package")
def data_directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("kernels")


@pytest.fixture(scope="package")
def jupyter_path(data_directory: Path, environments_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the tools find the kernelspec, as the command installs it."""
    return kernelspecs.install(data_directory, environments_dir, tmp_path_factory.mktemp("prefix"))


@pytest.fixture
def use(tools: Path, jupyter_path: Path, tmp_path: Path) -> Callable[..., str]:
    """Runs a tool in a directory of its own; what it said, and its exit status is as it should be."""

    def run(*command: str, status: int = 0) -> str:
        variables = {
            **os.environ,
            "JUPYTER_PATH": str(jupyter_path),
            "JUPYTER_RUNTIME_DIR": str(tmp_path / "runtime"),
            "IPYTHONDIR": str(tmp_path / "ipython"),
            "HOME": str(tmp_path),
        }
        words = [str(tools / command[0]), *command[1:]]
        done = subprocess.run(
            words, env=variables, capture_output=True, text=True, timeout=TOOL_SECONDS, check=False, cwd=tmp_path
        )
        assert done.returncode == status, f"{' '.join(words)}:\n{done.stdout}\n{done.stderr}"
        return done.stdout + done.stderr

    return run


@pytest.fixture(autouse=True)
def no_sandbox_is_left(data_directory: Path) -> Iterator[None]:
    """The tools' sandboxes go with the tools."""
    yield
    kernelspecs.wait_until_gone(data_directory)


def code_cells(path: Path) -> list[NotebookNode]:
    return [cell for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "code"]
