"""Installing the clients that the conformance tests run, each in an environment of its own, and running their scripts.

What is installed is pinned in a folder: `requirements.txt` (every package, as `uv pip compile --universal` resolved
`requirements.in`), `alone.txt` (what is installed without its dependencies) and, for Node.js, `package-lock.json`. An
environment stays in the data directory under the hash of what was asked for; a second run finds it there. A script
reports in its last line, as JSON.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

PINS = ("requirements.txt", "alone.txt", "package.json", "package-lock.json")
INSTALL_SECONDS = 600
"""How long one install may take: a slow network fetches what is not there yet."""
SCRIPT_SECONDS = 600
"""How long one script may take: a guard against hanging."""


def installed(pins: Path, clients: Path) -> Path:
    """The environment that these pins ask for, below `clients`, installed now if it is not there yet."""
    asked = hashlib.sha256(sys.version.encode())
    for file in PINS:
        if (pins / file).exists():
            asked.update((pins / file).read_bytes())
    place = clients / f"{pins.name}-{asked.hexdigest()[:16]}"
    finished = place / "installed"
    if not finished.exists():
        for older in clients.glob(f"{pins.name}-*"):
            shutil.rmtree(older)
        install(pins, place, clients)
        finished.touch()
    return place


def install(pins: Path, place: Path, clients: Path) -> None:
    """Fill an environment: Python packages by uv, and for Node.js, which is one of them, its own packages by npm."""
    variables = {**os.environ, "UV_CACHE_DIR": str(clients / "uv-cache"), "UV_NO_PROGRESS": "1"}
    uv = str(Path(sys.executable).parent / "uv")
    bin_dir = place / "bin"
    run([uv, "venv", "--quiet", "--no-project", "--python", sys.executable, str(place)], variables)
    requirements = str(pins / "requirements.txt")
    run([uv, "pip", "install", "--quiet", "--python", str(bin_dir / "python"), "-r", requirements], variables)
    if (pins / "alone.txt").exists():  # of a package with hundreds of dependencies one module is run
        alone = ["--no-deps", "-r", str(pins / "alone.txt")]
        run([uv, "pip", "install", "--quiet", "--python", str(bin_dir / "python"), *alone], variables)
    if (pins / "package.json").exists():
        for file in ("package.json", "package-lock.json"):
            shutil.copy(pins / file, place)
        npm = [str(bin_dir / "npm"), "ci", "--no-audit", "--no-fund", "--ignore-scripts", "--prefix", str(place)]
        path = f"{bin_dir}:{variables.get('PATH', '')}"
        run([*npm, "--cache", str(clients / "npm-cache")], {**variables, "PATH": path})


def install_package(source: Path, directory: Path) -> None:
    """Build a distribution of this checkout and unpack it into a directory, with its entry points, without others."""
    uv = str(Path(sys.executable).parent / "uv")
    given = ["--quiet", "--offline", "--no-deps", "--no-build-isolation", "--python", sys.executable]
    run([uv, "pip", "install", *given, "--target", str(directory), str(source)], dict(os.environ))


def run(command: list[str], variables: dict[str, str]) -> None:
    done = subprocess.run(
        command, env=variables, capture_output=True, text=True, timeout=INSTALL_SECONDS, check=False, cwd="/"
    )
    assert done.returncode == 0, f"{' '.join(command)} failed:\n{done.stdout}\n{done.stderr}"


def make_command(place: Path, script: Path, *arguments: str) -> list[str]:
    """An environment's interpreter and a script. Node.js wants the script beside its packages: a copy."""
    if script.suffix == ".py":
        return [str(place / "bin" / "python"), str(script), *arguments]
    return [str(place / "bin" / "node"), shutil.copy(script, place), *arguments]


def run_script(command: list[str], variables: Mapping[str, str], home: Path) -> str:
    """What a client's script printed, run in a home of its own; one that fails fails the test."""
    done = subprocess.run(
        command,
        env={**variables, "HOME": str(home)},
        cwd=home,
        capture_output=True,
        text=True,
        timeout=SCRIPT_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def read_report(command: list[str], variables: Mapping[str, str], home: Path) -> dict[str, Any]:
    """The report of a client's script: the last line that it printed."""
    report: dict[str, Any] = json.loads(run_script(command, variables, home).splitlines()[-1])
    return report
