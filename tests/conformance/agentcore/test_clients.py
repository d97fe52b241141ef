"""Every client does everything that it offers, unmodified, against the real service."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from scripts import agentcore_clients
from tests.conformance.agentcore.client_environments import SCRIPTS
from tests.conformance.agentcore.watching_proxy import Verdicts, WatchingProxy

Said = Callable[[str], dict[str, Any]]


@pytest.mark.sample("clients")
@pytest.mark.timeout(900)
@pytest.mark.sample(2)
@pytest.mark.parametrize("name", SCRIPTS)
def test_everything_a_client_offers_works(name: str, said: Said, verdicts: Verdicts) -> None:
    steps = said(name)["steps"]
    assert steps
    failed = {row: verdict for row, verdict in steps.items() if verdict != "works"}
    assert not failed, "\n\n".join(f"{row}: {verdict}" for row, verdict in failed.items())


def works(report: dict[str, Any]) -> list[str]:
    return sorted(row for row, verdict in report["steps"].items() if verdict == "works")


@pytest.mark.long  # each client runs its whole script
@pytest.mark.timeout(900)
def test_the_table_of_the_docs_is_what_came_of_it(said: Said, environments_dir: Path) -> None:
    """`scripts/agentcore_clients.py` writes what this run said into the docs."""
    results = {name: {"client": said(name)["client"], "works": works(said(name))} for name in SCRIPTS}
    (environments_dir.parent / agentcore_clients.RUN).write_text(json.dumps(results, indent=2))
    assert agentcore_clients.results() == results, "run .venv/bin/python scripts/agentcore_clients.py"


@pytest.mark.long
@pytest.mark.timeout(900)
def test_every_operation_is_called_by_some_client(said: Said, verdicts: Verdicts, proxy: WatchingProxy) -> None:
    for name in SCRIPTS:
        said(name)
    assert {one.name for one in verdicts.known} <= set(verdicts.answers)
