"""The kernelspec as the command writes it, in a directory of the tests, with a data directory of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from tests import kernelspecs


@pytest.fixture(scope="package")
def data_directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("data")


@pytest.fixture(scope="package")
def jupyter_path(data_directory: Path, environments_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where Jupyter finds the kernelspec; what it installs is what the command installs."""
    return kernelspecs.install(data_directory, environments_dir, tmp_path_factory.mktemp("prefix"))


@pytest.fixture(autouse=True)
def found_by_jupyter(jupyter_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JUPYTER_PATH", str(jupyter_path))
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(tmp_path / "runtime"))


@pytest.fixture
def sandboxes(data_directory: Path) -> Callable[[], list[str]]:
    """The sandboxes that are there now."""
    return partial(kernelspecs.sandboxes, data_directory)


@pytest.fixture
def all_gone(data_directory: Path) -> Iterator[Callable[[], None]]:
    """Waits until no sandbox and no lock of one is left; asked once more at the end of the test."""
    wait = partial(kernelspecs.wait_until_gone, data_directory)
    yield wait
    wait()
