"""An environment of its own for each client that the tests run; what is installed is pinned under clients/."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tests.conformance import client_environments

CLIENTS = Path(__file__).parent / "clients"

SCRIPTS = {
    "boto3_newest": "with_boto3.py",
    "boto3_oldest": "with_boto3.py",
    "bedrock_agentcore": "with_bedrock_agentcore.py",
    "langchain_aws": "with_langchain.py",
    "strands": "with_strands.py",
    "aws_sdk_js": "with_aws_sdk.mjs",
}
"""The script that each client runs, by the client's folder of pins."""


@dataclass(frozen=True)
class ClientEnvironment:
    """Where one client is installed, and how its script is run."""

    name: str
    place: Path

    @property
    def script(self) -> Path:
        return CLIENTS / "scripts" / SCRIPTS[self.name]

    @property
    def site_packages(self) -> Path:
        """Where the Python packages are."""
        (found,) = self.place.glob("lib/python3*/site-packages")
        return found

    @property
    def command(self) -> list[str]:
        """The interpreter and the script."""
        return client_environments.make_command(self.place, self.script)


def installed(name: str, data_dir: Path) -> ClientEnvironment:
    """The environment of a client, installed now if it is not there yet."""
    return ClientEnvironment(name, client_environments.installed(CLIENTS / name, data_dir / "agentcore-clients"))
