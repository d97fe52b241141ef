"""An environment of its own for each client that the tests run, installed from the registries.

What is installed is pinned under clients/: `requirements.txt` (every package, as `uv pip compile --universal` resolved
`requirements.in`) and, for Node.js, `package-lock.json`. An environment stays in the data directory under the
hash of what was asked for; a second run finds it there.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

CLIENTS = Path(__file__).parent / "clients"
PINS = ("requirements.txt", "package.json", "package-lock.json")
INSTALL_SECONDS = 600
"""How long one install may take: a slow network fetches what is not there yet."""


SCRIPTS = {
    "boto3_newest": "with_boto3.py",
    "boto3_oldest": "with_boto3.py",
    "bedrock_agentcore": "with_bedrock_agentcore.py",
    "langchain_aws": "with_langchain.py",
    "strands": "with_strands.py",
    "aws_sdk_js": "with_aws_sdk.mjs",
}
"""The script of ours that each client runs, by the client's folder of pins."""


@dataclass(frozen=True)
class ClientEnvironment:
    """Where one client is installed, and how its script is run."""

    name: str
    place: Path

    @property
    def pins(self) -> Path:
        return CLIENTS / self.name

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
        """The interpreter and the script. Node.js wants the script beside its packages: a copy."""
        if self.script.suffix == ".py":
            return [str(self.place / "bin" / "python"), str(self.script)]
        return [str(self.place / "bin" / "node"), shutil.copy(self.script, self.place)]


def installed(name: str, data_dir: Path) -> ClientEnvironment:
    """The environment of a client, installed now if it is not there yet."""
    asked = hashlib.sha256(sys.version.encode())
    for file in PINS:
        if (CLIENTS / name / file).exists():
            asked.update((CLIENTS / name / file).read_bytes())
    clients = data_dir / "agentcore-clients"
    environment = ClientEnvironment(name, clients / f"{name}-{asked.hexdigest()[:16]}")
    finished = environment.place / "installed"
    if not finished.exists():
        for older in clients.glob(f"{name}-*"):
            shutil.rmtree(older)
        install(environment, clients)
        finished.touch()
    return environment


def install(environment: ClientEnvironment, clients: Path) -> None:
    """Fill an environment: Python packages by uv, and for Node.js, which is one of them, its own packages by npm."""
    variables = {**os.environ, "UV_CACHE_DIR": str(clients / "uv-cache"), "UV_NO_PROGRESS": "1"}
    uv = str(Path(sys.executable).parent / "uv")
    place, bin_dir = environment.place, environment.place / "bin"
    run([uv, "venv", "--quiet", "--no-project", "--python", sys.executable, str(place)], variables)
    requirements = str(environment.pins / "requirements.txt")
    run([uv, "pip", "install", "--quiet", "--python", str(bin_dir / "python"), "-r", requirements], variables)
    if (environment.pins / "package.json").exists():
        for file in ("package.json", "package-lock.json"):
            shutil.copy(environment.pins / file, place)
        npm = [str(bin_dir / "npm"), "ci", "--no-audit", "--no-fund", "--ignore-scripts", "--prefix", str(place)]
        path = f"{bin_dir}:{variables.get('PATH', '')}"
        run([*npm, "--cache", str(clients / "npm-cache")], {**variables, "PATH": path})


def run(command: list[str], variables: dict[str, str]) -> None:
    done = subprocess.run(
        command, env=variables, capture_output=True, text=True, timeout=INSTALL_SECONDS, check=False, cwd="/"
    )
    assert done.returncode == 0, f"{' '.join(command)} failed:\n{done.stdout}\n{done.stderr}"
