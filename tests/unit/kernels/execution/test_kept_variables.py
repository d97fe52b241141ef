"""What a kernel says of kept variables is believed in its form alone: its user wrote it."""

from __future__ import annotations

import asyncio
import json
from types import SimpleNamespace
from typing import Any, cast

import pytest

from kernels.errors import SandboxFailed
from kernels.execution import kept_variables
from kernels.execution.hub import Hub


class LyingHub:
    """Answers whatever is asked with what it was made with."""

    generation = 3

    def __init__(self, content: bytes) -> None:
        self._content = content

    async def request(self, *_arguments: Any, **_options: Any) -> Any:
        return SimpleNamespace(content_json=self._content)


GOOD = {"status": "ok", "found": True, "at": 1.5, "executions": 2, "variables": [{"name": "a", "outcome": "restored"}]}


def restore(content: bytes) -> kept_variables.Restoration:
    return asyncio.run(kept_variables.restore(cast("Hub", LyingHub(content))))


def test_an_answer_of_the_form_is_believed() -> None:
    found = restore(json.dumps(GOOD).encode())
    assert (found.at, found.executions, found.variables[0].name) == (1.5, 2, "a")


@pytest.mark.parametrize(
    "changed",
    [
        {"at": -1},
        {"at": 1e12},
        {"at": "now"},
        {"executions": -1},
        {"executions": 2**60},
        {"variables": [{"name": "a", "outcome": "fine"}]},
        {"variables": [{"name": "a" * 1_001, "outcome": "lost"}]},
        {"variables": [{"name": "a", "outcome": "lost"}] * 1_001},
        {"status": "error", "evalue": "x" * 1_001},
        {"status": "error", "evalue": "no"},
        {"more": "x" * kept_variables.MOST_ANSWER_BYTES},
    ],
    ids=lambda changed: str(changed)[:40],
)
def test_an_answer_of_another_form_is_refused(changed: dict[str, Any]) -> None:
    with pytest.raises(SandboxFailed):
        restore(json.dumps({**GOOD, **changed}).encode())


def test_what_is_no_json_is_refused() -> None:
    for content in (b"", b"[" * 100_000, b"\xff"):
        with pytest.raises(SandboxFailed):
            restore(content)
