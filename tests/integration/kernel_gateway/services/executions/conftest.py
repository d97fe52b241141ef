"""One session of a real service, looked into by the tests of a module."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

from sandcell import Client, Session
from tests.running_service import RunningService


@pytest.fixture(scope="module")
def client(service: RunningService) -> Iterator[Client]:
    with service.client() as made:
        yield made


@pytest.fixture(scope="module")
def session(client: Client) -> Iterator[Session]:
    with client.session() as made:
        yield made


@pytest.fixture(scope="module")
def http(service: RunningService) -> Iterator[httpx.Client]:
    """Plain HTTP as the administrator: nothing is tried again."""
    with httpx.Client(
        base_url=service.url, headers={"Authorization": f"Bearer {service.token}"}, timeout=120, trust_env=False
    ) as client:
        yield client
