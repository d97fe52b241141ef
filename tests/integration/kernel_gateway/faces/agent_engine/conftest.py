"""One sandbox, and another principal."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

from tests.integration.kernel_gateway.faces.agent_engine.google import Google, connect
from tests.running_service import RunningService


@pytest.fixture(scope="module")
def google(service: RunningService) -> Iterator[Google]:
    with connect(service) as http:
        made = Google.make(http)
        yield made
        made.close()


@pytest.fixture(scope="module")
def stranger(service: RunningService) -> Iterator[httpx.Client]:
    with service.client() as client:
        token = client.create_token("stranger.to.the.engine").token
    with connect(service, token) as http:
        yield http
