"""Where the MCP clients that the tests run are installed; what they are is pinned under clients/."""

from __future__ import annotations

from pathlib import Path

from tests.conformance import client_environments

CLIENTS = Path(__file__).parent / "clients"
SCRIPTS = {
    "sdk": "with_sdk.py",
    "sdk_1": "with_sdk.py",
    "langchain_adapters": "with_langchain_adapters.py",
    "inspector": "with_inspector.py",
    "openai_agents": "with_openai_agents.py",
}
"""The script that each client runs, by the client's folder of pins."""


def installed(name: str, data_dir: Path) -> Path:
    """The environment of a client, installed now if it is not there yet."""
    return client_environments.installed(CLIENTS / name, data_dir / "mcp-clients")
