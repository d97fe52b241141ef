"""Where E2B's clients that the tests run are installed; what they are is pinned under clients/."""

from __future__ import annotations

import shutil
from pathlib import Path

from tests.conformance import client_environments

CLIENTS = Path(__file__).parent / "clients"
SCRIPTS = {"newest": "with_python.py", "older": "with_python.py", "javascript": "with_javascript.mjs"}
"""The script that each client runs, by the client's folder of pins."""


def make_command(name: str, data_dir: Path) -> list[str]:
    """What runs a client's script, installed now if it is not there yet; Node.js wants it beside its packages."""
    place = client_environments.installed(CLIENTS / name, data_dir / "e2b-clients")
    script = CLIENTS / "scripts" / SCRIPTS[name]
    if script.suffix == ".py":
        return [str(place / "bin" / "python"), str(script)]
    return [str(place / "bin" / "node"), shutil.copy(script, place)]
