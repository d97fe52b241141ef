"""A Python that every user may run: that of the tests may lie in the home of root."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parent.parent
SYSTEM = "/usr/bin/python3"


def list_packages() -> list[str]:
    """Directories that the code and what it imports lie in."""
    found = [each for each in filter(None, sys.path) if Path(each, "click").is_dir() or Path(each, "kernels").is_dir()]
    return list(dict.fromkeys([*found, str(REPOSITORY), str(REPOSITORY / "client")]))


def make_reachable_python(place: Path) -> Path:
    """An environment of the system's Python there, with all that this one has; its program is returned."""
    own = ".".join(map(str, sys.version_info[:2]))
    ask = [SYSTEM, "-c", "import sys; print(*sys.version_info[:2], sep='.')"]
    found = subprocess.run(ask, capture_output=True, text=True, check=True, timeout=120).stdout.strip()
    if found != own:
        pytest.skip(f"{SYSTEM} is Python {found}, and these tests run on {own}: its packages are for that one")
    subprocess.run([SYSTEM, "-m", "venv", "--without-pip", place], check=True, timeout=120)
    (place / f"lib/python{own}/site-packages/shared.pth").write_text("\n".join(list_packages()))
    return place / "bin/python"
