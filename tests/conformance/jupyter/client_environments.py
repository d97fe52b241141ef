"""Where the Jupyter clients that the tests run are installed; what they are is pinned under clients/."""

from __future__ import annotations

from pathlib import Path

from tests.conformance import client_environments

CLIENTS = Path(__file__).parent / "clients"
SCRIPTS = CLIENTS / "scripts"


def installed(name: str, data_dir: Path) -> Path:
    """The environment of a client, installed now if it is not there yet."""
    return client_environments.installed(CLIENTS / name, data_dir / "jupyter-clients")
