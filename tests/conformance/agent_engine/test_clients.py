"""Every client does everything that it offers for sandboxes, unmodified, against the real service."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.conformance.agent_engine.client_environments import CLIENT_NAMES


@pytest.mark.sample("clients")
@pytest.mark.timeout(900)
@pytest.mark.sample(1)
@pytest.mark.parametrize("name", CLIENT_NAMES)
def test_everything_a_client_offers_works(name: str, report: Callable[[str], dict[str, Any]]) -> None:
    steps = report(name)["steps"]
    assert steps
    failed = {row: verdict for row, verdict in steps.items() if verdict != "works"}
    assert not failed, "\n\n".join(f"{row}: {verdict}" for row, verdict in failed.items())
