"""Where nbclient, papermill and nbconvert are installed for the tests, with this repository's kernels beside them."""

from __future__ import annotations

import hashlib
import os
import sys
from pathlib import Path

from tests.conformance import client_environments
from tests.conftest import REPOSITORY

PINS = Path(__file__).parent / "clients" / "notebook_tools"


def installed(data_dir: Path) -> Path:
    """The environment, installed now if it is not there yet. Sandcell is in it as `pip install -e` puts it."""
    clients = data_dir / "notebook-clients"
    place = client_environments.installed(PINS, clients)
    declared = hashlib.sha256((REPOSITORY / "pyproject.toml").read_bytes()).hexdigest()  # entry points, for one
    beside = place / f"sandcell-installed-{declared[:16]}"
    if not beside.exists():
        uv = [str(Path(sys.executable).parent / "uv"), "pip", "install", "--quiet"]
        python = ["--python", str(place / "bin/python")]
        how = ["--no-deps", "--no-build-isolation", "--editable", str(REPOSITORY)]
        client_environments.run([*uv, *python, *how], {**os.environ, "UV_CACHE_DIR": str(clients / "uv-cache")})
        beside.touch()
    return place
