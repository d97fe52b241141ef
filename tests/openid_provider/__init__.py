"""A real identity provider for the tests: node-oidc-provider, on a port of its own, as `provider.mjs` sets it up."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

from tests.conformance.client_environments import installed, make_command

HERE = Path(__file__).parent
CLIENT_ID, CLIENT_SECRET = "console", "the secret: of/the+console"


@contextlib.contextmanager
def running_provider(clients: Path) -> Iterator[str]:
    """Its issuer, while it runs; what it needs is installed below `clients`."""
    command = make_command(installed(HERE / "pins", clients), HERE / "provider.mjs")
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env={"PATH": os.environ["PATH"]}
    )
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
