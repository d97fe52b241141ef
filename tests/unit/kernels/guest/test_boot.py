"""What the guest imports before the first kernel, which callers wait for."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

COSTLY = ("collections", "contextlib", "enum", "importlib.util", "json", "re", "signal", "socket", "typing")


def test_little_is_imported_before_the_first_kernel_starts() -> None:
    code = f"import sys, kernels.guest.boot; print(*[each for each in {COSTLY} if each in sys.modules])"
    repository = Path(__file__).parents[4]
    # Without `site`: a Python of tests may have `.pth` files that import more.
    imported = subprocess.run(
        [sys.executable, "-S", "-c", code], cwd=repository, capture_output=True, text=True, check=True
    )
    assert imported.stdout.split() == []
