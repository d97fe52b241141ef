"""What the service does not import at its start, because it takes long and is needed seldom or by another process."""

from __future__ import annotations

import subprocess
import sys


def test_the_service_starts_without_what_reads_and_renders_strangers_notebooks() -> None:
    """nbformat takes 1.2 s where jsonschema's formats are installed beside it; nbconvert is the viewers' own."""
    program = "import sys; from kernel_gateway.server import serving, starting; serving.load_application()"
    loaded = subprocess.run(
        [sys.executable, "-c", f"{program}; print(*sys.modules)"], capture_output=True, text=True, check=True
    ).stdout.split()
    assert "kernel_gateway.server.application" in loaded
    assert {"nbformat", "jsonschema", "nbconvert", "IPython"} & set(loaded) == set()
