"""An environment of its own for each client that the tests run; what is installed is pinned under clients/."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tests.conformance import client_environments

CLIENTS = Path(__file__).parent / "clients"
STEPS = Path(__file__).parents[1] / "agentcore" / "clients" / "scripts"
"""Where `steps` is, which the scripts report with."""


@dataclass(frozen=True)
class Client:
    """One name that a client is used under: the folder of its pins, its script, and what the script is told."""

    pins: str
    script: str
    argument: str = ""


CLIENT_NAMES = {
    "agentplatform": Client("vertexai_newest", "with_sandboxes.py", "agentplatform"),
    "vertexai": Client("vertexai_newest", "with_sandboxes.py", "vertexai"),
    "vertexai_1_112": Client("vertexai_1_112", "with_first_release.py"),
    "adk": Client("adk", "with_adk.py"),
}


def make_command(client: Client, data_dir: Path) -> list[str]:
    """The interpreter of the client's environment, installed now if it is not there yet, and the script."""
    place = client_environments.installed(CLIENTS / client.pins, data_dir / "agent-engine-clients")
    return client_environments.make_command(place, CLIENTS / "scripts" / client.script, client.argument)
