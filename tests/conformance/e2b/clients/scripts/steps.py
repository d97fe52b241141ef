"""What a client's script does, step by step, and what came of each: a line of JSON at the end.

A step that fails says why and does not keep the others from being tried.
"""

import json
import sys
import traceback
from collections.abc import Callable
from importlib.metadata import version


class Steps:
    """`@steps("a row")` runs the function at once and keeps its verdict."""

    def __init__(self, *packages: str) -> None:
        self._client = ", ".join(f"{package} {version(package)}" for package in packages)
        self._verdicts: dict[str, str] = {}

    def __call__(self, row: str) -> Callable[[Callable[[], None]], None]:
        def run(step: Callable[[], None]) -> None:
            try:
                step()
            except Exception:
                self._verdicts[row] = traceback.format_exc()
            else:
                self._verdicts.setdefault(row, "works")

        return run

    def report(self) -> None:
        json.dump({"client": self._client, "steps": self._verdicts}, sys.stdout)


def equal(got: object, wanted: object) -> None:
    """Compare, and say both."""
    assert got == wanted, f"got {got!r}, wanted {wanted!r}"


def holds(text: str, *parts: str) -> None:
    """Every part is in the text."""
    for part in parts:
        assert part in text, f"no {part!r} in {text!r}"
