"""The kernelspec as the command writes it, in a directory of the tests, with a data directory of its own."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from kernel_gateway.cli.main import sandcell
from tests import leftovers


@pytest.fixture(scope="package")
def data_directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("data")


@pytest.fixture(scope="package")
def jupyter_path(data_directory: Path, environments_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where Jupyter finds the kernelspec; what it installs is what the command installs."""
    prefix = tmp_path_factory.mktemp("prefix")
    flags = ["--data-dir", str(data_directory), "--environments-dir", str(environments_dir)]
    flags += ["--run-dir", str(leftovers.RUN_DIR), "--prefix", str(prefix)]
    done = CliRunner().invoke(sandcell, ["kernelspec", "install", *flags], env={"SANDCELL_TOKEN": None})
    assert done.exit_code == 0, done.output
    return prefix / "share/jupyter"


@pytest.fixture(autouse=True)
def found_by_jupyter(jupyter_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JUPYTER_PATH", str(jupyter_path))
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(tmp_path / "runtime"))


@pytest.fixture
def sandboxes(data_directory: Path) -> Callable[[], list[str]]:
    """The sandboxes that are there now."""
    return lambda: sorted(path.name for path in (data_directory / "kernels/sandboxes").glob("*-*"))


@pytest.fixture
def all_gone(sandboxes: Callable[[], list[str]], data_directory: Path) -> Iterator[Callable[[], None]]:
    """Waits until no sandbox and no lock of one is left; asked once more at the end of the test."""

    def wait() -> None:
        give_up = time.monotonic() + 60
        locks = data_directory / "kernels/locks"
        while left := [*sandboxes(), *locks.glob("*-*")]:
            assert time.monotonic() < give_up, f"still there: {left}"
            time.sleep(0.05)

    yield wait
    wait()
