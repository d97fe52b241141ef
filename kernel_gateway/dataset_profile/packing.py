"""This package as one archive that a Python in a sandbox runs, and the shell command that does so. Host side, pure."""

from __future__ import annotations

import base64
import io
import shlex
import zipfile
from functools import cache
from pathlib import Path

INSIDE = "dataset_profile"
"""The package's name in the sandbox."""
OUTSIDE = ("packing.py",)
MAIN = f"from {INSIDE}.main import main\n\nmain()\n"


@cache
def build_archive() -> bytes:
    """The archive that Python runs as a program."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as sources:
        sources.writestr("__main__.py", MAIN)
        for source in sorted(Path(__file__).parent.glob("*.py")):
            if source.name not in OUTSIDE:
                sources.writestr(f"{INSIDE}/{source.name}", source.read_bytes())
    return packed.getvalue()


def build_command(python: str, arguments: list[str]) -> str:
    """The command for a sandbox's shell. Its only output is one JSON document."""
    packed = base64.b64encode(build_archive()).decode()
    run = shlex.join([python, "-I", "-B", "/tmp/profile.pyz", *arguments])  # noqa: S108 - the sandbox's own, all its
    return f"echo {packed} | base64 -d > /tmp/profile.pyz && exec {run}"
