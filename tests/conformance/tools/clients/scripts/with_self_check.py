"""Inspect's own checks of a provider of sandboxes, unmodified, on one session. The report has a row for each."""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncIterator
from importlib.metadata import entry_points, version
from typing import Any

import pytest
from inspect_ai.util._sandbox.self_check import *  # noqa: F403 - the checks are what pytest collects here

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
async def sandbox(anyio_backend: str) -> AsyncIterator[Any]:
    (found,) = (each.load() for each in entry_points(group="inspect_ai") if each.name == "sandcell")
    provider = found.SandcellSandbox
    environments = await provider.sample_init("self-check", None, {})
    yield environments["default"]
    await provider.sample_cleanup("self-check", None, environments, interrupted=False)


@pytest.fixture
def sandbox_env(sandbox: Any) -> Any:
    return sandbox


class Rows:
    """A plugin that writes down what came of each check."""

    def __init__(self) -> None:
        self.rows: dict[str, str] = {}

    def pytest_runtest_logreport(self, report: Any) -> None:
        name = report.nodeid.rpartition("::")[2]
        if report.failed:
            self.rows[name] = report.longreprtext
        elif report.when == "call":
            self.rows[name] = "works"


if __name__ == "__main__":
    plugin = Rows()
    alone = ["-c", "/dev/null", "--rootdir", ".", "--noconftest", "-p", "no:cacheprovider"]
    pytest.main([*alone, "--quiet", "--tb=short", __file__], plugins=[plugin])
    sys.stdout.flush()
    print("\n" + json.dumps({"client": f"inspect-ai {version('inspect-ai')}", "steps": plugin.rows}))
