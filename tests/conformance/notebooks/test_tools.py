"""nbclient and papermill execute what a session wrote, in sandboxes; nbconvert converts it."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import nbformat
import pytest

from kernels.replay import Showing, compare
from kernels.replay.evidence import Standing
from tests.conformance.notebooks import client_environment
from tests.conformance.notebooks.conftest import code_cells

Use = Callable[..., str]


@pytest.mark.sample("clients")
def test_nbclient_executes_it_and_the_outputs_are_those_of_the_record(recorded: Path, use: Use, tmp_path: Path) -> None:
    runs = [recorded, tmp_path / "first.ipynb", tmp_path / "second.ipynb"]
    for out in runs[1:]:
        use("python", str(client_environment.PINS.parent / "with_nbclient.py"), str(recorded), str(out))
    before, after, again = map(code_cells, runs)
    assert len(before) == len(after) == 7
    for cells in zip(before, after, again, strict=True):
        assert cells[0].source == cells[1].source
        found = compare(*(Showing(cell.outputs) for cell in cells))
        assert found.standing is Standing.SAME, found
    assert after[-1].outputs[-1].ename == "AssertionError"
    assert [cell.id for cell in before] == [cell.id for cell in after]


@pytest.mark.sample("clients")
def test_what_a_tool_changed_is_no_record_any_more(recorded: Path, use: Use, tmp_path: Path) -> None:
    verify = [sys.executable, "-m", "kernel_gateway", "notebook", "verify"]
    changed = shutil.copy(recorded, tmp_path)
    assert subprocess.run([*verify, changed], check=False, capture_output=True).returncode == 0
    use("jupyter-nbconvert", "--clear-output", "--inplace", str(changed))
    cleared = subprocess.run([*verify, changed], check=False, capture_output=True, text=True)
    assert cleared.returncode == 1
    assert "cell" in cleared.stdout + cleared.stderr


@pytest.mark.sample("clients")
def test_papermill_executes_it_with_other_parameters(recorded: Path, use: Use, tmp_path: Path) -> None:
    given, out = tmp_path / "given.ipynb", tmp_path / "out.ipynb"
    notebook = nbformat.read(recorded, as_version=4)
    next(cell for cell in notebook.cells if cell.source == "n = 3").metadata.tags = ["parameters"]
    nbformat.write(notebook, given)
    use("papermill", "--kernel", "sandcell-python", "--no-progress-bar", "-p", "n", "4", str(given), str(out))
    cells = code_cells(out)
    injected = next(at for at, cell in enumerate(cells) if "injected-parameters" in cell.metadata.get("tags", []))
    assert "n = 4" in cells[injected].source
    assert cells[-3].outputs[-1].data["text/plain"] == "56"
    assert {cell.metadata.papermill.status for cell in cells} == {"completed"}
    nbformat.validate(nbformat.read(out, as_version=4))


@pytest.mark.sample("clients")
def test_papermill_stops_at_a_cell_that_fails(recorded: Path, use: Use, tmp_path: Path) -> None:
    said = use(
        "papermill",
        "--kernel",
        "sandcell-python",
        "--no-progress-bar",
        str(recorded),
        str(tmp_path / "out.ipynb"),
        status=1,
    )
    assert "AssertionError: n is 3" in said


@pytest.mark.sample("clients")
def test_nbconvert_converts_it(recorded: Path, use: Use, tmp_path: Path) -> None:
    for form in ("html", "script"):
        use("jupyter-nbconvert", "--to", form, "--output-dir", str(tmp_path), str(recorded))
    page = (tmp_path / "history.html").read_text()
    assert "from the shell" in page
    assert "data:image/png;base64," in page
    assert 'class="dataframe"' in page
    compile((tmp_path / "history.py").read_text(), "history.py", "exec")
