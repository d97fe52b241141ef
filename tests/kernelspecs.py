"""The kernelspec `sandcell-python` as its command installs it, and the sandboxes that its kernels leave or do not."""

from __future__ import annotations

import time
from pathlib import Path

from click.testing import CliRunner

from sandcell.cli.main import sandcell
from tests import leftovers


def install(data_directory: Path, environments_dir: Path, prefix: Path) -> Path:
    """Install it below a prefix; returns where Jupyter finds it (`JUPYTER_PATH`)."""
    flags = ["--data-dir", str(data_directory), "--environments-dir", str(environments_dir)]
    flags += ["--run-dir", str(leftovers.RUN_DIR), "--prefix", str(prefix)]
    done = CliRunner().invoke(sandcell, ["kernelspec", "install", *flags], env={"SANDCELL_TOKEN": None})
    assert done.exit_code == 0, done.output
    return prefix / "share/jupyter"


def sandboxes(data_directory: Path) -> list[str]:
    """The sandboxes that are there now."""
    return sorted(path.name for path in (data_directory / "kernels/sandboxes").glob("*-*"))


def wait_until_gone(data_directory: Path) -> None:
    """Wait until no sandbox and no lock of one is left."""
    give_up, locks = time.monotonic() + 120, data_directory / "kernels/locks"
    while left := [*sandboxes(data_directory), *locks.glob("*-*")]:
        assert time.monotonic() < give_up, f"still there: {left}"
        time.sleep(0.05)
